#include "runner/report/prediction_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "contract/spec/yaml_value.h"
#include "runner/store/quantile.h"

namespace fsdp {
namespace {

template <typename T, typename U>
std::optional<double> error_percent(const ComparisonRow& run, std::optional<T> predicted,
                                    std::optional<U> measured) {
  if (run.status != RunStatus::kFinished || !predicted || !measured || *measured <= 0) {
    return std::nullopt;
  }
  return 100 * (static_cast<double>(*predicted) / static_cast<double>(*measured) - 1);
}

// "allocated memory by 0.0 % (median of 12 runs; worst +0.3 %)"
std::string errors_text(const char* of_what, const std::vector<double>& errors) {
  const auto size = [](double error) { return std::abs(error); };
  std::vector<double> sizes;
  std::ranges::transform(errors, std::back_inserter(sizes), size);
  const double worst = *std::ranges::max_element(errors, {}, size);
  return fmt::format("{} by {:.1f} % (median of {}; worst {:+.1f} %)", of_what,
                     median(std::move(sizes)), counted(std::ssize(errors), "run"), worst);
}

}  // namespace

std::optional<double> memory_error_percent(const ComparisonRow& run) {
  return error_percent(run, run.memory_allocated_bytes_predicted, run.memory_allocated_bytes_max);
}

std::optional<double> step_time_error_percent(const ComparisonRow& run) {
  return error_percent(run, run.step_time_ms_predicted, run.step_time_ms_median);
}

std::string predictions_line(std::span<const ComparisonRow* const> runs) {
  std::vector<double> of_memory;
  std::vector<double> of_step_times;
  for (const ComparisonRow* run : runs) {
    if (const auto error = memory_error_percent(*run)) of_memory.push_back(*error);
    if (const auto error = step_time_error_percent(*run)) of_step_times.push_back(*error);
  }
  if (of_memory.empty()) return "";
  std::string line = "Predictions were off for " + errors_text("allocated memory", of_memory);
  if (!of_step_times.empty()) line += ", " + errors_text("step time", of_step_times);
  return line + '.';
}

}  // namespace fsdp
