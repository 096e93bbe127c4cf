#include <fmt/ranges.h>

#include <algorithm>

#include "runner/report/answers.h"
#include "runner/report/number_text.h"
#include "runner/report/speeds.h"

namespace fsdp {
namespace {

constexpr size_t kMostRows = 4;

// "4xDDP 91 %", with a remark if 100 % is possible.
std::string efficiency_of(const Series& row, const SpeedComparison& speeds) {
  const Series& base = *row.scaling->base;
  const Speed speed = speeds.against(row, base, &AttemptSummary::tokens_per_second_per_rank);
  if (speed == Speed::kDisturbed) {
    return told_apart(row.name) + " not known (others took CPU time)";
  }
  const std::string percent =
      whole_percent(*scaling_efficiency_percent(row.scaling, row.median)) + " %";
  const char* doubt = speed == Speed::kNoDifference  ? " (within noise of 100 %)"
                      : speed == Speed::kTooFewSteps ? " (too few steps to tell)"
                                                     : "";
  return fmt::format("{} {}{}", told_apart(row.name), percent, doubt);
}

bool has_fewer_threads(const Series* row) {
  const std::optional<int64_t>& threads = row->median.threads;
  const std::optional<int64_t>& of_base = row->scaling->base->median.threads;
  return threads && of_base && *threads < *of_base;
}

// Describes rows that share a base and a kind.
std::string scaling_text(const SeriesRows& rows, const SpeedComparison& speeds) {
  const Scaling& scaling = *rows.front()->scaling;
  std::vector<std::string> texts;
  for (const Series* row : rows) texts.push_back(efficiency_of(*row, speeds));
  const size_t more = texts.size() - std::min(texts.size(), kMostRows);
  texts.resize(texts.size() - more);
  if (more > 0) texts.push_back(fmt::format("{} more", more));
  std::string text = fmt::format("{} of the tokens/s a rank of {} ({})", fmt::join(texts, ", "),
                                 told_apart(scaling.base->name),
                                 scaling.kind == ScalingKind::kWeak
                                     ? "weak scaling: the total batch grows with the ranks"
                                     : "strong scaling: the total batch stays");
  if (std::ranges::any_of(rows, has_fewer_threads)) text += ", with fewer CPU threads a rank";
  return text;
}

}  // namespace

std::string how_they_scale(Rows rows) {
  std::vector<SeriesRows> alike;
  for (const Series* row : rows) {
    if (!row->scaling || row->scaling->kind == ScalingKind::kBase) continue;
    const auto known = std::ranges::find_if(alike, [&](const SeriesRows& others) {
      const Scaling& other = *others.front()->scaling;
      return other.base == row->scaling->base && other.kind == row->scaling->kind;
    });
    if (known == alike.end()) {
      alike.push_back({row});
    } else {
      known->push_back(row);
    }
  }
  const SpeedComparison speeds(rows);
  std::vector<std::string> texts;
  for (const SeriesRows& one : alike) texts.push_back(scaling_text(one, speeds));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace fsdp
