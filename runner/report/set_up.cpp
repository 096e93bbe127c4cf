#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "contract/spec/yaml_value.h"
#include "runner/report/answers.h"
#include "runner/report/number_text.h"
#include "runner/report/row_spec.h"

namespace fsdp {
namespace {

// Returns the text if all rows that have one have the same; else empty.
template <typename Of>
std::string common(Rows rows, Of of) {
  std::set<std::string> texts;
  for (const Series* series : rows) {
    const std::string text = of(series->median);
    if (!text.empty()) texts.insert(text);
  }
  return texts.size() == 1 ? *texts.begin() : "";
}

std::string model_name(const ComparisonRow& run) {
  const std::filesystem::path source = text_of_spec(run, "/model/source");
  if (!source.empty()) return (source.has_filename() ? source : source.parent_path()).filename();
  const std::string architecture = text_of_spec(run, "/model/config/architecture");
  return architecture.substr(0, architecture.find("For"));
}

std::string data_kind(const ComparisonRow& run) {
  const std::string kind = text_of_spec(run, "/data/kind");
  return kind.empty() ? "" : kind + " data";
}

// "Llama 6.62M"
std::string model(const ComparisonRow& run) {
  const std::string name = model_name(run);
  const std::string size =
      run.parameter_count ? short_count(static_cast<double>(*run.parameter_count)) : "";
  if (name.find(size) != std::string::npos) return name;  // such as SmolLM2-135M
  return name.empty() ? size : name + ' ' + size;
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
std::string device(const ComparisonRow& run) {
  std::string name = run.device_name;
  for (const std::string_view ornament : {"(R)", "(TM)", " Processor"}) {
    for (size_t at = 0; (at = name.find(ornament)) != std::string::npos;) {
      name.erase(at, ornament.size());
    }
  }
  return name.empty() || run.device == DeviceKind::kCuda ? name : name + " (CPU)";
}

std::string joined_texts(std::vector<std::string> texts) {
  std::erase(texts, "");
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string set_up_of(Rows rows) {
  const std::string task =
      joined_texts({common(rows, model), common(rows, [](auto& run) { return run.precision; }),
                    common(rows,
                           [](auto& run) {
                             return run.sequence_length > 0
                                        ? fmt::format("{} tokens a row", run.sequence_length)
                                        : std::string();
                           }),
                    common(rows, data_kind)});
  const std::string hardware =
      joined_texts({common(rows, device), threads(rows),
                    common(rows, [](auto& run) { return counted(run.ranks, "rank"); })});
  return task.empty() || hardware.empty() ? task + hardware : task + "; " + hardware;
}

}  // namespace fsdp
