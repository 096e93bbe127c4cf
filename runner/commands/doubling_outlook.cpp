#include "runner/commands/doubling_outlook.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "contract/text/utf8.h"
#include "runner/report/doubling_notes.h"

namespace fsdp {
namespace {

using Series = std::vector<const ComparisonRow*>;

bool is_open(const ComparisonRow& row) {
  return row.status == RunStatus::kQueued || row.status == RunStatus::kRunning;
}

std::string outlook(const Series& series) {
  const ComparisonRow& last = **std::ranges::max_element(
      series, {}, [](const ComparisonRow* row) { return *row->family_value; });
  const auto open = std::ranges::find_if(series, [](auto* row) { return is_open(*row); });
  const auto does_not_fit =
      std::ranges::find(series, RunStatus::kOutOfMemory, &ComparisonRow::status);
  if (open == series.end() &&
      (does_not_fit != series.end() || last.status != RunStatus::kFinished)) {
    return "";
  }
  const ComparisonRow& known = open == series.end() ? last : **open;
  const std::string value =
      visible_line(known.experiment + ": " + name_without_value(known) + ": " + known.family_key) +
      '=' + std::to_string(*known.family_value);
  if (open == series.end()) {
    return value +
           " fits; the next call of fsdp-run with --launcher slurm submits the next value, if "
           "there is one\n";
  }
  return value +
         ": the next value is submitted when this one's result is known, by the runner that "
         "follows the jobs or "
         "else by the next call of fsdp-run with --launcher slurm\n";
}

}  // namespace

std::string doubling_outlook(std::span<const ComparisonRow> rows) {
  std::map<std::pair<std::string, int64_t>, Series> all;
  for (const ComparisonRow& row : rows) {
    if (row.family_value) all[{row.experiment, row.position}].push_back(&row);
  }
  std::string text;
  for (const auto& [key, series] : all) {
    const bool is_of_jobs = std::ranges::any_of(series, [](const ComparisonRow* row) {
      return row->status == RunStatus::kQueued || !row->slurm_job.empty();
    });
    if (is_of_jobs) text += outlook(series);
  }
  return text;
}

}  // namespace fsdp
