#include "runner/export/export.h"

#include "base/text/csv.h"
#include "base/text/json.h"
#include "contract/record/run_paths.h"
#include "runner/export/exported_run.h"

namespace fsdp {
namespace {

// A table with a column per field of `Parts`, structs with visit_fields. CSV begins with a line of
// names. JSON has one object a line.
template <Fields... Parts>
class TableFile {
 public:
  // Adds .csv or .jsonl to `stem`.
  TableFile(const std::filesystem::path& stem, bool as_json)
      : file_(stem.string() + (as_json ? ".jsonl" : ".csv")), as_json_(as_json) {
    if (!as_json)
      write_csv([](std::string& line, const char* name, auto&) { line += name; }, Parts()...);
  }

  void add(const Parts&... parts) {
    if (as_json_) {
      JsonObject row;
      (row.add_fields(parts), ...);
      file_.write(row.text() + '\n');
    } else {
      write_csv([](std::string& line, auto, auto& value) { append_csv(line, value); }, parts...);
    }
  }

  void close() { file_.close(); }

 private:
  // Writes one line. `append` adds the text of each field.
  template <typename Append>
  void write_csv(const Append& append, const Parts&... parts) {
    std::string line;
    const auto append_part = [&]<Fields Part>(const Part& part) {
      Part::visit_fields(part, [&](const char* name, const auto& value, auto&&...) {
        append(line, name, value);
        line += ',';
      });
    };
    (append_part(parts), ...);
    line.pop_back();
    file_.write(line + "\r\n");
  }

  OutputFile file_;
  bool as_json_;
};

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
                  bool as_json) {
  TableFile<EventKey, Recorded<Body>> file(stem, as_json);
  for (const AttemptRecord& attempt : store.attempts(run_id)) {
    for (const Recorded<Body>& event : store.events<Body>(run_id, attempt.attempt)) {
      file.add({attempt.attempt}, event);
    }
  }
  file.close();
}

// Writes the events of all attempts and ranks.
void write_tables(const Store& store, const ComparisonRow& run, const std::filesystem::path& folder,
                  bool as_json) {
  write_events<StepDone>(store, run.run, folder / "steps", as_json);
  write_events<EvaluationDone>(store, run.run, folder / "evaluations", as_json);
  write_events<CheckpointDone>(store, run.run, folder / "checkpoints", as_json);
  write_events<DeviceSample>(store, run.run, folder / "device_samples", as_json);
}

Origin origin_of(const Store& store, const ComparisonRow& run) {
  Origin origin;
  origin.provenance.environment.clear();  // without an attempt it is not known
  if (!run.attempt) return origin;
  const int attempt = static_cast<int>(*run.attempt);
  origin.provenance = store.provenance(run.run, attempt);
  const std::vector<RunStarted> ranks = store.rank_facts(run.run, attempt);
  if (!ranks.empty()) origin.rank0 = ranks.front();
  return origin;
}

// Returns the path below the export's folder. TensorBoard shows it as the run's name.
std::filesystem::path folder_of(const ComparisonRow& row) {
  return std::filesystem::path(file_name_of(row.experiment)) /
         (file_name_of(row.point) + '-' + row.hash8);
}

void write_run(const Store& store, const ComparisonRow& run, const Origin& origin,
               const std::filesystem::path& folder, const ExportOptions& options) {
  std::filesystem::create_directories(folder);
  switch (options.format) {
    case ExportFormat::kCsv:
    case ExportFormat::kJsonl:
      return write_tables(store, run, folder, options.format == ExportFormat::kJsonl);
    case ExportFormat::kTensorboard:
      return write_tensorboard(store, run, folder);
    case ExportFormat::kWandb:
      return write_wandb(store, run, origin, folder, options);
  }
}

}  // namespace

void export_runs(const Store& store, std::span<const ComparisonRow> rows,
                 const std::filesystem::path& folder, const ExportOptions& options) {
  const bool as_json =
      options.format == ExportFormat::kJsonl || options.format == ExportFormat::kWandb;
  TableFile<ComparisonRow, Origin> runs(folder / "runs", as_json);
  for (const ComparisonRow& row : rows) {
    const Origin origin = origin_of(store, row);
    runs.add(row, origin);
    if (row.attempt) write_run(store, row, origin, folder / folder_of(row), options);
  }
  runs.close();
  if (options.format == ExportFormat::kWandb) write_wandb_upload(folder);
}

}  // namespace fsdp
