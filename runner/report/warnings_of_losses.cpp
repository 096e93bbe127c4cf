#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "runner/report/names.h"
#include "runner/report/warning_checks.h"

namespace fsdp {
namespace {

// Relative differences of losses that sharding may make: sums are taken in another order.
constexpr double kLossToleranceFp32 = 1e-4;
constexpr double kLossToleranceOthers = 2e-2;

bool agree(double one, double other, double tolerance) {
  return one == other ||
         std::abs(one - other) <= tolerance * std::max(std::abs(one), std::abs(other));
}

// The text for runs whose losses must be equal, when the least and the greatest are not.
std::optional<std::string> disagreement(const Runs& runs,
                                        std::optional<double> AttemptSummary::*loss,
                                        const std::string& which) {
  const auto [least, greatest] =
      std::ranges::minmax(runs, {}, [&](auto* run) { return *(run->*loss); });
  const double tolerance = least->precision == "fp32" ? kLossToleranceFp32 : kLossToleranceOthers;
  if (agree(*(least->*loss), *(greatest->*loss), tolerance)) return std::nullopt;
  char losses[64];
  std::snprintf(losses, sizeof(losses), " %.6g, ", *(least->*loss));
  std::string text = least->point + losses + greatest->point;
  std::snprintf(losses, sizeof(losses), " %.6g", *(greatest->*loss));
  return text + losses + " (" + which + " step)";
}

}  // namespace

std::optional<std::string> losses_disagree(Rows rows) {
  std::map<std::string, Runs> must_be_equal;
  for (const ComparisonRow* run : finished_runs(rows)) {
    const bool comparable =
        run->loss_last && run->loss_first && run->resumed_from_step.value_or(0) == 0;
    if (comparable && !run->loss_digest.empty()) must_be_equal[run->loss_digest].push_back(run);
  }
  std::vector<std::string> found;
  for (const auto& [digest, runs] : must_be_equal) {
    auto text = disagreement(runs, &AttemptSummary::loss_first, "first");
    if (!text) text = disagreement(runs, &AttemptSummary::loss_last, "last");
    if (text) found.push_back(*text);
  }
  if (found.empty()) return std::nullopt;
  return "losses do not agree although model, data, seed, total batch, steps and precision are "
         "equal: " +
         joined_names(found) +
         "; allowed are differences of 0.0001 in fp32 and of 0.02 in other precisions, relative. "
         "Run these again with --rerun; if it stays, one of them computes something else: look at "
         "`fsdp-run diff` of the two";
}

}  // namespace fsdp
