// Describes what all rows have in common, such as model, data and device.
#include <algorithm>
#include <filesystem>
#include <set>

#include "contract/spec/yaml_value.h"
#include "runner/answers/answers.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

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
  const auto& [source, config] = series.median.spec.model;
  if (!source.empty()) return (source.has_filename() ? source : source.parent_path()).filename();
  return config.architecture.substr(0, config.architecture.find("For"));
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
  return fmt::format("{} data", name_of(series.median.spec.data.kind));
}

std::string row_length(const Series& series) {
  return fmt::format("{} tokens a row", series.median.spec.data.sequence_length);
}

// "12 steps of 16 sequences"
std::string steps_and_batch(const Series& series) {
  const ComparisonRow& run = series.median;
  const auto& steps = run.steps_planned ? run.steps_planned : run.steps;
  if (!steps) return "";
  return fmt::format("{} of {}", counted(*steps, "step"),
                     counted(run.spec.batch.total.value_or(0), "sequence"));
}

// Returns the threads of each rank: "1 thread a rank", or "1-2 threads a rank" if rows differ.
std::string threads(Rows rows) {
  std::set<int64_t> counts;
  for (const Series* series : rows) {
    const ComparisonRow& run = series->median;
    if (run.threads && run.spec.device == DeviceKind::kCpu) counts.insert(*run.threads);
  }
  if (counts.empty()) return "";
  if (counts.size() == 1) return counted(*counts.begin(), "thread") + " a rank";
  return fmt::format("{}-{} threads a rank", *counts.begin(), *counts.rbegin());
}

// "Intel Xeon (CPU)" for "Intel(R) Xeon(R) Processor"
std::string device(const Series& series) {
  std::string name = series.median.device_name;
  for (const std::string_view ornament : {"(R)", "(TM)", " Processor"}) {
    for (size_t at = 0; (at = name.find(ornament)) != std::string::npos;) {
      name.erase(at, ornament.size());
    }
  }
  return name.empty() || series.median.spec.device == DeviceKind::kCuda ? name : name + " (CPU)";
}

}  // namespace

std::string set_up_of(Rows rows) {
  const auto precision = [](const Series& series) {
    return precision_text(series.median.spec.precision);
  };
  const auto ranks = [](const Series& series) {
    return counted(series.median.spec.strategy.ranks, "rank");
  };
  const auto method = [](const Series& series) {
    return std::string(name_of(series.median.spec.method));
  };
  const std::string common_method = common(rows, method);
  const bool is_full = common_method == name_of(Method::kFull);
  const std::string task = joined_texts(
      {common(rows, model), is_full ? "" : common_method, common(rows, precision),
       common(rows, row_length), common(rows, data_kind), common(rows, steps_and_batch)},
      ", ");
  const std::string hardware =
      joined_texts({common(rows, device), threads(rows), common(rows, ranks)}, ", ");
  return joined_texts({task, hardware}, "; ");
}

std::string device_remark(Rows rows) {
  const Runs runs = only(started_runs(rows), [](auto* run) { return run->steps.has_value(); });
  const auto is_on_cpu = [](auto* run) { return run->spec.device == DeviceKind::kCpu; };
  if (runs.empty() || !std::ranges::all_of(runs, is_on_cpu)) return "";
  if (std::ranges::all_of(runs, [](auto* run) { return run->spec.strategy.ranks == 1; })) {
    return "No GPU is used: speeds say nothing about GPUs.";
  }
  return "No GPU is used: each rank is a process on this CPU. Memory of a rank and equal losses "
         "carry "
         "over to GPUs; speeds do not.";
}

}  // namespace fsdp
