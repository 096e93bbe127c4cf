#include "runner/report/loss_agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "runner/report/warning_checks.h"

namespace fsdp {
namespace {

constexpr double kAllowedInFp32 = 1e-4;
constexpr double kAllowedInOthers = 2e-2;

struct LossOfRun {
  const ComparisonRow* run;
  std::optional<double> loss;
};

std::vector<StepLoss> losses_of(const ComparisonRow& run) {
  if (!run.losses.empty()) return run.losses;
  return {{.step = 1, .loss = run.loss_first},
          {.step = run.steps.value_or(std::numeric_limits<int64_t>::max()), .loss = run.loss_last}};
}

double relative_difference(double low, double high) {
  return low == high ? 0 : (high - low) / std::max(std::abs(low), std::abs(high));
}

void compare_step(LossAgreement& agreement, int64_t step, const std::vector<LossOfRun>& losses) {
  const auto finite = std::ranges::count_if(losses, [](auto& of) { return of.loss.has_value(); });
  ++agreement.step_count;
  if (finite == 0) {
    ++agreement.not_finite_count;
    return;
  }
  const auto [least, greatest] = std::ranges::minmax(losses, {}, &LossOfRun::loss);
  const double difference = finite < std::ssize(losses)
                                ? std::numeric_limits<double>::infinity()
                                : relative_difference(*least.loss, *greatest.loss);
  agreement.difference = std::max(agreement.difference, difference);
  if (difference <= agreement.allowed || agreement.parted_at) return;
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  agreement.parted_at = step;
  agreement.least = least.run;
  agreement.greatest = greatest.run;
  agreement.least_loss = least.loss.value_or(kNone);
  agreement.greatest_loss = greatest.loss.value_or(kNone);
}

LossAgreement agreement_of(Runs runs) {
  std::map<int64_t, std::vector<LossOfRun>> by_step;
  for (const ComparisonRow* run : runs) {
    for (const auto& [step, loss] : losses_of(*run)) by_step[step].push_back({run, loss});
  }
  const bool is_fp32 = runs.front()->precision == "fp32";
  LossAgreement agreement{.runs = std::move(runs),
                          .allowed = is_fp32 ? kAllowedInFp32 : kAllowedInOthers};
  for (const auto& [step, losses] : by_step) {
    if (losses.size() == agreement.runs.size()) compare_step(agreement, step, losses);
  }
  return agreement;
}

}  // namespace

std::vector<LossAgreement> loss_agreements(Rows rows) {
  std::vector<Runs> must_be_equal;
  std::map<std::string, size_t> places;
  for (const ComparisonRow* run : finished_runs(rows)) {
    const bool is_comparable =
        run->loss_last && run->loss_first && run->resumed_from_step.value_or(0) == 0;
    if (!is_comparable || run->loss_digest.empty()) continue;
    const auto [place, is_new] = places.emplace(run->loss_digest, must_be_equal.size());
    if (is_new) must_be_equal.emplace_back();
    must_be_equal[place->second].push_back(run);
  }
  std::vector<LossAgreement> agreements;
  for (Runs& runs : must_be_equal) {
    if (runs.size() > 1) agreements.push_back(agreement_of(std::move(runs)));
  }
  return agreements;
}

}  // namespace fsdp
