#include "runner/series/losses.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "runner/table/names.h"

namespace fsdp {
namespace {

constexpr double kAllowedInFp32 = 1e-4;
constexpr double kAllowedInOthers = 2e-2;

struct LossOfRun {
  const ComparisonRow* run;
  std::optional<double> loss;
};

// Returns the first and the last loss. For a resumed run only the last one: its first loss may
// belong to the step from which it resumed.
std::vector<StepLoss> ends_of(const ComparisonRow& run) {
  const int64_t steps_done = run.steps.value_or(0);  // of the whole run, unless the run was resumed
  const int64_t last_step = run.steps_planned.value_or(
      is_resumed(run) ? std::numeric_limits<int64_t>::max() : steps_done);
  const StepLoss last{.step = last_step, .loss = run.loss_last};
  if (is_resumed(run) || last_step <= 1) return {last};
  return {{.step = 1, .loss = run.loss_first}, last};
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
  agreement.parted_at = step;
  agreement.least = least.run;
  agreement.greatest = greatest.run;
  agreement.least_loss = least.loss;
  agreement.greatest_loss = greatest.loss;
}

LossAgreement agreement_of(Runs runs) {
  const bool is_every_step =
      std::ranges::none_of(runs, [](const ComparisonRow* run) { return run->losses.empty(); });
  std::map<int64_t, std::vector<LossOfRun>> by_step;
  for (const ComparisonRow* run : runs) {
    for (const auto& [step, loss] : is_every_step ? run->losses : ends_of(*run)) {
      std::vector<LossOfRun>& known = by_step[step];
      if (known.empty() || known.back().run != run) known.push_back({run, loss});
    }
  }
  const bool is_fp32 = runs.front()->precision == "fp32";
  LossAgreement agreement{.runs = std::move(runs),
                          .is_every_step = is_every_step,
                          .allowed = is_fp32 ? kAllowedInFp32 : kAllowedInOthers};
  for (const auto& [step, losses] : by_step) {
    if (losses.size() == agreement.runs.size()) compare_step(agreement, step, losses);
  }
  const bool is_from_first_step = !by_step.empty() && by_step.begin()->first == 1;
  agreement.is_whole = is_from_first_step && agreement.step_count == by_step.size();
  return agreement;
}

}  // namespace

bool is_resumed(const ComparisonRow& run) { return run.resumed_from_step.value_or(0) != 0; }

std::vector<LossAgreement> loss_agreements(Rows rows) {
  const Runs runs = only(finished_runs(rows), [](const ComparisonRow* run) {
    return !run->loss_digest.empty() && (!run->losses.empty() || run->steps.value_or(0) > 0);
  });
  std::vector<LossAgreement> agreements;
  for (auto& [digest, alike] : grouped(runs, [](auto* run) { return run->loss_digest; })) {
    if (alike.size() > 1) agreements.push_back(agreement_of(std::move(alike)));
  }
  return agreements;
}

std::string loss_in_words(std::optional<double> loss) {
  return loss ? fmt::format("{:.6g}", *loss) : "not finite";
}

}  // namespace fsdp
