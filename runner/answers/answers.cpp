#include "runner/answers/answers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "contract/spec/yaml_value.h"
#include "runner/series/doubling_notes.h"
#include "runner/series/run_keys.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

// Describes the set-up of rows, says which of them fit, and which take least memory.
namespace fsdp {
namespace {

// --- the set-up ---

// Returns the text that `of` gives for every row. Rows without a text do not count. Empty if texts
// differ, or if no row has one.
template <typename Of>
std::string common(Rows rows, Of of) {
  std::set<std::string> texts;
  for (const Series* series : rows) {
    const std::string text = of(*series);
    if (!text.empty()) texts.insert(text);
  }
  return texts.size() == 1 ? *texts.begin() : "";
}

std::string model_name(const Series& series) {
  const std::filesystem::path source = text_at(series.spec, "/model/source");
  if (!source.empty()) return (source.has_filename() ? source : source.parent_path()).filename();
  const std::string architecture = text_at(series.spec, "/model/config/architecture");
  return architecture.substr(0, architecture.find("For"));
}

// "Llama 6.62M"
std::string model(const Series& series) {
  const std::string name = model_name(series);
  const std::optional<int64_t>& count = series.median.parameter_count;
  const std::string size = count ? short_count(static_cast<double>(*count)) : "";
  if (name.find(size) != std::string::npos) return name;  // such as SmolLM2-135M
  return name.empty() ? size : name + ' ' + size;
}

std::string data_kind(const Series& series) {
  const std::string kind = text_at(series.spec, "/data/kind");
  return kind.empty() ? "" : kind + " data";
}

std::string row_length(const Series& series) {
  const int64_t tokens = series.median.sequence_length;
  return tokens > 0 ? fmt::format("{} tokens a row", tokens) : "";
}

// Returns the threads of each rank: "1 thread", or "1-2 threads" if rows differ.
std::string threads(Rows rows) {
  std::set<int64_t> counts;
  for (const Series* series : rows) {
    const ComparisonRow& run = series->median;
    if (run.threads && run.device == DeviceKind::kCpu) counts.insert(*run.threads);
  }
  if (counts.empty()) return "";
  if (counts.size() == 1) return counted(*counts.begin(), "thread");
  return fmt::format("{}-{} threads", *counts.begin(), *counts.rbegin());
}

// "Intel Xeon (CPU)" for "Intel(R) Xeon(R) Processor"
std::string device(const Series& series) {
  std::string name = series.median.device_name;
  for (const std::string_view ornament : {"(R)", "(TM)", " Processor"}) {
    for (size_t at = 0; (at = name.find(ornament)) != std::string::npos;) {
      name.erase(at, ornament.size());
    }
  }
  return name.empty() || series.median.device == DeviceKind::kCuda ? name : name + " (CPU)";
}

// --- memory ---

// Memory within this factor counts as equal. Between repeats, only the memory that libraries
// request differs.
constexpr double kEqualMemory = 1.01;

// " in 24.0 GiB" if all runs of the rows exceeded the same limit; else empty.
std::string limit_of(const SeriesRows& rows) {
  std::set<std::string> limits;
  for (const Series* series : rows) {
    for (const ComparisonRow* run : series->runs) {
      const std::optional<double> bytes = run->exceeded_limit_bytes();
      limits.insert(bytes ? fmt::format(" in {} GiB", gibibytes(bytes)) : "");
    }
  }
  return limits.size() == 1 ? *limits.begin() : "";
}

// "B ran out of memory in 4 of 5 repeats". Other runs of each row did not.
std::string at_times_text(const SeriesRows& rows) {
  std::string text;
  for (const Series* series : rows) {
    text +=
        fmt::format("; {} ran out of memory in {} of {} repeats", quoted_if_unclear(series->name),
                    out_of_memory_count(*series), series->runs.size());
  }
  return text;
}

// "all 5", "yes" for one, "3 of 5"; if there are other rows, "3 of 4 that finished or did not fit".
std::string share_of(size_t fitting, size_t known, bool are_all) {
  if (known == 0) return "not known";
  if (!are_all) return fmt::format("{} of {} that finished or did not fit", fitting, known);
  if (fitting < known) return fmt::format("{} of {}", fitting, known);
  return known == 1 ? "yes" : fmt::format("all {}", known);
}

// Counts rows without a doubled key: "3 of 5; do not fit in 24.0 GiB: 1 GPU and 4xDDP". Rows that
// neither finished nor ran out of memory may fit, and are not counted.
std::string count_that_fit(const SeriesRows& rows) {
  SeriesRows without_room, at_times;
  std::map<std::string, SeriesRows> by_status;
  for (const Series* series : rows) {
    if (fits(*series)) continue;
    const size_t count = out_of_memory_count(*series);
    SeriesRows& alike = count == 0                     ? by_status[series->status_text()]
                        : count == series->runs.size() ? without_room
                                                       : at_times;
    alike.push_back(series);
  }
  const size_t fitting = rows_that_fit(rows).size();
  std::string text =
      share_of(fitting, fitting + without_room.size() + at_times.size(), by_status.empty());
  if (!without_room.empty()) {
    text += fmt::format("; {} not fit{}: {}", without_room.size() == 1 ? "does" : "do",
                        limit_of(without_room), names_in_words(points_of(without_room)));
  }
  text += at_times_text(at_times);
  for (const auto& [status, others] : by_status) {
    text += fmt::format("; {}: {}", status, joined_names(points_of(others)));
  }
  return text;
}

double allocated_bytes(const Series* series) {
  return static_cast<double>(series->median.memory_allocated_bytes_max.value_or(0));
}

SeriesRows with_measured_memory(Rows rows) {
  return only(rows_that_fit(rows), [](auto* series) { return allocated_bytes(series) > 0; });
}

SeriesRows with_least_of(const SeriesRows& measured) {
  const double least = allocated_bytes(*std::ranges::min_element(measured, {}, allocated_bytes));
  return only(measured, [&](const Series* series) {
    return allocated_bytes(series) <= kEqualMemory * least;
  });
}

// "least memory: offload, 0.0625 GiB a rank, x0.51 of 1 GPU"
std::string least_memory(Rows rows) {
  const SeriesRows measured = with_measured_memory(rows);
  if (measured.empty()) return "";
  const SeriesRows with_least = with_least_of(measured);
  const auto [least_row, most_row] = std::ranges::minmax(with_least, {}, allocated_bytes);
  const double least = allocated_bytes(least_row), most = allocated_bytes(most_row);
  const std::string figure = gibibytes(least, most) + " GiB a rank";
  if (measured.size() == 1) return figure;
  if (with_least.size() == measured.size()) return "each takes " + figure;
  std::string text =
      fmt::format("least memory: {}, {}", names_in_words(points_of(with_least)), figure);
  const Series& first = *with_least.front();
  const double of_baseline = first.baseline == nullptr ? 0 : allocated_bytes(first.baseline);
  if (!(of_baseline > 0) || is_among(with_least, first.baseline)) {
    return text;
  }
  const std::string ratios = ratios_of_baseline(first, least / of_baseline, most / of_baseline);
  return ratios.empty() ? text : text + ", " + ratios;
}

}  // namespace

std::vector<std::string> points_of(Rows rows) {
  return mapped(rows, [](const Series* series) { return quoted_if_unclear(series->name); });
}

std::string ratios_of_baseline(const Series& series, double least, double most) {
  const Series* baseline = series.baseline;
  if (baseline == nullptr || baseline == &series || baseline->finished_count == 0) return "";
  return fmt::format("{} of {}", range_text(ratio(least), ratio(most)),
                     quoted_if_unclear(baseline->name));
}

std::vector<Answer> answers_for(Rows rows) {
  const auto is_started = [](const Series* series) {
    return series->median.attempt.has_value() || series->median.status != RunStatus::kPlanned;
  };
  if (std::ranges::none_of(rows, is_started)) return {};
  std::vector<Answer> answers{{"Fits", memory_answer(rows)},
                              {"Speed", speed_answer(rows)},
                              {"Loss", loss_answer(rows)},
                              {"Scaling", scaling_answer(rows)}};
  std::ranges::move(change_answers(rows), std::back_inserter(answers));
  std::erase_if(answers, [](const Answer& answer) { return answer.text.empty(); });
  return answers;
}

std::string set_up_of(Rows rows) {
  const auto precision = [](const Series& series) { return series.median.precision; };
  const auto ranks = [](const Series& series) { return counted(series.median.ranks, "rank"); };
  const auto method = [](const Series& series) { return method_of(series.spec); };
  const std::string common_method = common(rows, method);
  const bool is_full = common_method == name_of(Method::kFull);
  const std::string task =
      joined_texts({common(rows, model), is_full ? "" : common_method, common(rows, precision),
                    common(rows, row_length), common(rows, data_kind)},
                   ", ");
  const std::string hardware =
      joined_texts({common(rows, device), threads(rows), common(rows, ranks)}, ", ");
  return joined_texts({task, hardware}, "; ");
}

BestRows rows_with_least_memory(Rows rows) {
  const SeriesRows measured = with_measured_memory(rows);
  BestRows best{measured.size() < 2 ? measured : with_least_of(measured),
                "memory_allocated_bytes_max"};
  if (best.rows.size() == measured.size()) best.rows.clear();
  return best;
}

std::string memory_answer(Rows rows) {
  const auto is_doubled = [](const Series* series) {
    return series->median.family_value.has_value();
  };
  const auto doubled =
      mapped(only(rows, is_doubled), [](const Series* series) { return series->median; });
  const SeriesRows others = only(rows, std::not_fn(is_doubled));
  std::vector<std::string> texts = largest_that_fit(doubled);
  if (!others.empty()) {
    texts.push_back(count_that_fit(others));
    texts.push_back(least_memory(others));
  }
  return joined_texts(texts, "; ");
}

}  // namespace fsdp
