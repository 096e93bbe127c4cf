#include <algorithm>
#include <cmath>
#include <map>

#include "runner/report/names.h"
#include "runner/report/warning_checks.h"

namespace fsdp {
namespace {

// Relative differences of losses that sharding may make: sums are taken in another order.
constexpr double kLossToleranceFp32 = 1e-4;
constexpr double kLossToleranceOthers = 2e-2;

// The text for runs whose losses must be equal, when the least and the greatest are not.
std::string disagreement(const Runs& runs, std::optional<double> AttemptSummary::*loss,
                         std::string_view which) {
  const auto [least, greatest] =
      std::ranges::minmax(runs, {}, [&](auto* run) { return *(run->*loss); });
  const double low = *(least->*loss);
  const double high = *(greatest->*loss);
  const double tolerance = least->precision == "fp32" ? kLossToleranceFp32 : kLossToleranceOthers;
  if (low == high || high - low <= tolerance * std::max(std::abs(low), std::abs(high))) return "";
  return fmt::format("{} {:.6g}, {} {:.6g} ({} step)", least->point, low, greatest->point, high,
                     which);
}

}  // namespace

std::string losses_disagree(Rows rows) {
  std::map<std::string, Runs> must_be_equal;
  for (const ComparisonRow* run : finished_runs(rows)) {
    const bool comparable =
        run->loss_last && run->loss_first && run->resumed_from_step.value_or(0) == 0;
    if (comparable && !run->loss_digest.empty()) must_be_equal[run->loss_digest].push_back(run);
  }
  std::vector<std::string> found;
  for (const auto& [digest, runs] : must_be_equal) {
    std::string text = disagreement(runs, &AttemptSummary::loss_first, "first");
    if (text.empty()) text = disagreement(runs, &AttemptSummary::loss_last, "last");
    if (!text.empty()) found.push_back(text);
  }
  return joined_names(found);
}

}  // namespace fsdp
