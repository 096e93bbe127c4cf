// Writes runs as CSV, JSON lines or Parquet, and the figures that other formats share.
#include "runner/export/export.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <map>
#include <set>
#include <system_error>

#include "base/files/new_file.h"
#include "base/text/config_error.h"
#include "base/text/csv.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "formats/data/parquet_table.h"
#include "runner/export/exported_run.h"

namespace fsdp {
namespace {

// Returns the format of an export's tables.
ExportFormat table_format(ExportFormat format) {
  if (!upload_script(format).empty()) return ExportFormat::kJsonl;  // a tracker
  const bool has_others = format == ExportFormat::kJsonl || format == ExportFormat::kParquet;
  return has_others ? format : ExportFormat::kCsv;
}

// A file with a table. Its columns are the fields of the structs `Parts`. CSV begins with a line of
// names. JSON has one object a line.
template <Fields... Parts>
class TableFile {
 public:
  // Adds .csv, .jsonl or .parquet to `stem`.
  TableFile(const std::filesystem::path& stem, ExportFormat format)
      : format_(table_format(format)),
        file_(fmt::format("{}.{}", stem.string(), name_of(format_))) {
    if (format_ == ExportFormat::kCsv) {
      write_csv([](std::string& line, const char* name, auto&) { line += name; }, Parts()...);
    } else if (format_ == ExportFormat::kParquet) {
      std::vector<ParquetColumn> columns;
      const auto add_column = [&]<typename T>(const char* name, const T&, auto&&...) {
        columns.push_back({name, column_type<T>()});
      };
      visit_all(add_column, Parts()...);
      parquet_ = new_parquet_table(columns, [this](std::string_view more) { file_.write(more); });
    }
  }
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;

  void add(const Parts&... parts) {
    const auto add_value = [](std::string& line, auto, auto& value) { append_csv(line, value); };
    if (format_ == ExportFormat::kCsv) return write_csv(add_value, parts...);
    JsonObject row;
    (row.add_fields(parts), ...);
    parquet_ ? parquet_->add(row.text()) : file_.write(row.text() + '\n');
  }

  void close() {
    if (parquet_) parquet_->close();
    file_.close();
  }

 private:
  static void visit_all(const auto& visit, const Parts&... parts) {
    (Parts::visit_fields(parts, visit), ...);
  }

  // Writes one line. `append` adds the text of each field.
  void write_csv(const auto& append, const Parts&... parts) {
    std::string line;
    const auto append_field = [&](const char* name, const auto& value, auto&&...) {
      append(line, name, value);
      line += ',';
    };
    visit_all(append_field, parts...);
    line.pop_back();
    file_.write(line + "\r\n");
  }

  ExportFormat format_;
  OutputFile file_;
  std::unique_ptr<ParquetTable> parquet_;  // null unless Parquet; writes into file_
};

// A run's settings that are made of several keys, and all of its keys as JSON.
struct Settings {
  std::string sharding;
  std::string wrap;
  std::string precision;
  std::string spec;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("sharding", self.sharding);
    visit("wrap", self.wrap);
    visit("precision", self.precision);
    visit("spec", self.spec);
  }
};

Settings settings_of(const RunSpec& spec) {
  return {.sharding = sharding_text(spec.strategy),
          .wrap = wrap_text(spec.strategy.wrap),
          .precision = precision_text(spec.precision),
          .spec = json_text(spec)};
}

// The columns before an event's own fields.
struct EventKey {
  int attempt = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("attempt", self.attempt);
  }
};

template <typename Body>
void write_events(const Store& store, int64_t run_id, const std::filesystem::path& stem,
                  ExportFormat format) {
  TableFile<EventKey, Recorded<Body>> file(stem, format);
  constexpr int kAtOnce = 10'000;  // memory does not grow with the number of steps
  for (const AttemptRecord& attempt : store.attempts(run_id)) {
    std::vector<Recorded<Body>> events;
    do {
      events = store.events<Body>(run_id, attempt.attempt, kAtOnce,
                                  events.empty() ? nullptr : &events.back());
      for (const Recorded<Body>& event : events) file.add({attempt.attempt}, event);
    } while (events.size() == kAtOnce);
  }
  file.close();
}

// Writes the events of all attempts and ranks.
void write_tables(const Store& store, const ComparisonRow& run, const std::filesystem::path& folder,
                  ExportFormat format) {
  write_events<StepDone>(store, run.run, folder / "steps", format);
  write_events<EvaluationDone>(store, run.run, folder / "evaluations", format);
  write_events<CheckpointDone>(store, run.run, folder / "checkpoints", format);
  write_events<DeviceSample>(store, run.run, folder / "device_samples", format);
}

Origin origin_of(const Store& store, const ComparisonRow& run) {
  Origin origin;
  origin.provenance.environment.clear();  // without an attempt it is not known
  if (!run.attempt) return origin;
  const int attempt = static_cast<int>(*run.attempt);
  origin.provenance = store.provenance(run.run, attempt);
  const auto if_known = [](int64_t count) {
    return count == 0 ? std::nullopt : std::optional(count);
  };
  origin.cpu_cores = if_known(origin.provenance.cpu_cores);
  origin.memory_total_bytes = if_known(origin.provenance.memory_total_bytes);
  const std::vector<RunStarted> ranks = store.rank_facts(run.run, attempt);
  if (!ranks.empty()) origin.rank0 = ranks.front();
  return origin;
}

// Returns the path below the export's folder. TensorBoard shows it as the run's name.
std::filesystem::path folder_of(const ComparisonRow& row) {
  return std::filesystem::path(file_name_of(row.experiment)) /
         (file_name_of(row.point) + '-' + row.hash8);
}

bool is_of_traces(ExportFormat format) {
  return format == ExportFormat::kTrace || format == ExportFormat::kMemory;
}

// Returns false if the run has nothing of the format.
bool write_run(const Store& store, const ComparisonRow& run, const Origin& origin,
               const std::filesystem::path& folder, const ExportOptions& options) {
  const auto traces =
      is_of_traces(options.format) ? traces_of(store, run, options.results) : RankTraces();
  if (is_of_traces(options.format) && traces.empty()) return false;
  std::filesystem::create_directories(folder);
  switch (options.format) {
    case ExportFormat::kCsv:
    case ExportFormat::kJsonl:
    case ExportFormat::kParquet:
      write_tables(store, run, folder, options.format);
      break;
    case ExportFormat::kTensorboard:
      write_tensorboard(store, run, folder);
      break;
    case ExportFormat::kWandb:
    case ExportFormat::kMlflow:
    case ExportFormat::kTrackio:
      write_tracked(store, run, origin, folder, options);
      break;
    case ExportFormat::kTrace:
      write_traces(traces, folder);
      break;
    case ExportFormat::kMemory:
      for (const auto& [rank, trace] : traces) {
        write_memory_snapshot(folder / fmt::format("rank{}.pickle", rank.rank), trace.memory);
      }
      break;
  }
  return true;
}

// Swaps two folders. On a file system without an atomic swap, `b` is missing for a moment.
void swap_folders(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno != EINVAL) throw std::system_error(errno, std::generic_category(), b.string());
  const std::filesystem::path aside = name_by_chance(b);
  std::filesystem::rename(b, aside);
  std::filesystem::rename(a, b);
  std::filesystem::rename(aside, a);
}

// --- moments ---

void add_if_known(Moment& moment, const std::string& name, std::optional<double> value) {
  if (value && std::isfinite(*value)) moment.figures.emplace_back(name, *value);
}

// `of_ranks` has one step as each rank reported it. Loss and learning rate are equal on all ranks.
Moment moment_of_step(const std::vector<const Recorded<StepDone>*>& of_ranks) {
  const Recorded<StepDone>& first = *of_ranks.front();
  const StepDone* slowest = &first.body;
  int64_t allocated_bytes = 0;
  int64_t reserved_bytes = 0;
  for (const Recorded<StepDone>* rank : of_ranks) {
    if (rank->body.step_time_ms > slowest->step_time_ms) slowest = &rank->body;
    allocated_bytes = std::max(allocated_bytes, rank->body.memory_allocated_bytes_max);
    reserved_bytes = std::max(reserved_bytes, rank->body.memory_reserved_bytes_max);
  }
  Moment moment{.step = first.body.step, .time_unix_ms = first.time_unix_ms};
  add_if_known(moment, "train/loss", first.body.loss);
  add_if_known(moment, "train/learning_rate", first.body.learning_rate);
  add_if_known(moment, "train/gradient_norm", first.body.gradient_norm);
  add_if_known(moment, "time/step_time_ms", slowest->step_time_ms);
  add_if_known(moment, "time/communication_time_ms", slowest->communication_time_ms);
  add_if_known(moment, "memory/allocated_bytes_max", allocated_bytes);
  add_if_known(moment, "memory/reserved_bytes_max", reserved_bytes);
  return moment;
}

std::vector<Moment> moments_of_steps(const std::vector<Recorded<StepDone>>& steps,
                                     int64_t last_step) {
  std::map<int64_t, std::vector<const Recorded<StepDone>*>> of_ranks;
  for (const Recorded<StepDone>& step : steps) {
    if (step.body.step <= last_step) of_ranks[step.body.step].push_back(&step);
  }
  std::vector<Moment> moments;
  for (const auto& [step, ranks] : of_ranks) moments.push_back(moment_of_step(ranks));
  return moments;
}

void add_evaluations(std::vector<Moment>& moments,
                     const std::vector<Recorded<EvaluationDone>>& evaluations, int64_t last_step) {
  for (const Recorded<EvaluationDone>& evaluation : evaluations) {
    // All ranks report the same values.
    if (evaluation.rank != 0 || evaluation.body.step > last_step) continue;
    Moment moment{.step = evaluation.body.step, .time_unix_ms = evaluation.time_unix_ms};
    add_if_known(moment, "validation/loss", evaluation.body.loss);
    add_if_known(moment, "validation/token_accuracy", evaluation.body.token_accuracy);
    moments.push_back(std::move(moment));
  }
}

int64_t step_done_by(const std::vector<Moment>& steps, int64_t time_unix_ms) {
  const auto later = std::ranges::upper_bound(steps, time_unix_ms, {}, &Moment::time_unix_ms);
  return later == steps.begin() ? 0 : std::prev(later)->step;
}

// If the run has several hosts, the names of devices begin with the host's name.
void add_device_samples(std::vector<Moment>& moments, const std::vector<Moment>& steps,
                        const std::vector<Recorded<DeviceSample>>& samples) {
  std::set<std::string> hosts;
  for (const Recorded<DeviceSample>& sample : samples) hosts.insert(sample.body.host);
  for (const Recorded<DeviceSample>& sample : samples) {
    const DeviceSample& device = sample.body;
    const std::string place = hosts.size() > 1 ? device.host + '/' : "";
    const std::string name = "device/" + visible_line(place + device.device) + '/';
    Moment moment{.step = step_done_by(steps, sample.time_unix_ms),
                  .time_unix_ms = sample.time_unix_ms};
    add_if_known(moment, name + "utilization_percent", device.utilization_percent);
    add_if_known(moment, name + "memory_used_bytes", device.memory_used_bytes);
    add_if_known(moment, name + "power_watts", device.power_watts);
    add_if_known(moment, name + "temperature_celsius", device.temperature_celsius);
    moments.push_back(std::move(moment));
  }
}

}  // namespace

std::vector<Moment> moments_of(const Store& store, int64_t run_id, int attempt) {
  std::vector<Moment> moments;
  for (const Stretch& stretch : store.stretches(run_id, attempt)) {
    const std::vector<Moment> steps =
        moments_of_steps(store.events<StepDone>(run_id, stretch.attempt), stretch.last_step);
    moments.insert(moments.end(), steps.begin(), steps.end());
    add_evaluations(moments, store.events<EvaluationDone>(run_id, stretch.attempt),
                    stretch.last_step);
    add_device_samples(moments, steps, store.events<DeviceSample>(run_id, stretch.attempt));
  }
  std::erase_if(moments, [](const Moment& moment) { return moment.figures.empty(); });
  std::ranges::stable_sort(moments, {}, &Moment::time_unix_ms);
  return moments;
}

PublishedFolder::PublishedFolder(const std::filesystem::path& place)
    : place_(std::filesystem::weakly_canonical(std::filesystem::absolute(place))) {
  if (!place_.has_filename()) place_ = place_.parent_path();
  partial_ = name_by_chance(place_);
  std::filesystem::create_directories(partial_);
}

PublishedFolder::~PublishedFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(partial_, ignored);
}

void PublishedFolder::publish() {
  if (std::filesystem::exists(place_)) {
    std::filesystem::permissions(partial_, std::filesystem::status(place_).permissions());
    swap_folders(partial_, place_);
  } else {
    std::filesystem::rename(partial_, place_);
  }
}

void export_runs(const Store& store, std::span<const ComparisonRow> rows,
                 const std::filesystem::path& folder, const ExportOptions& options) {
  TableFile<ComparisonRow, Settings, Origin> runs(folder / "runs", options.format);
  bool has_files = !is_of_traces(options.format);
  for (const ComparisonRow& row : rows) {
    const Origin origin = origin_of(store, row);
    runs.add(row, settings_of(row.spec), origin);
    if (!row.attempt) continue;
    has_files |= write_run(store, row, origin, folder / folder_of(row), options);
  }
  runs.close();
  if (!has_files) {
    throw ConfigError("--format", "",
                      "no run has left a trace: set train.trace_steps: 2, and run again");
  }
  const std::string_view script = upload_script(options.format);
  if (script.empty()) return;
  OutputFile upload(folder / "upload.py");
  upload.write(script);
  upload.close();
}

}  // namespace fsdp
