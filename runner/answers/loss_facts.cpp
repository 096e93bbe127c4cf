// Compares losses of runs that compute the same, at every step that all of them have.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "contract/spec/run_spec_yaml.h"
#include "runner/answers/facts.h"
#include "runner/series/run_keys.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// --- the comparison of losses ---

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

// Returns nullopt if no value is finite.
std::optional<StepDifference> spread_of(int64_t step, const std::vector<FigureOfRun>& values) {
  const auto finite = std::ranges::count_if(values, [](auto& of) { return of.value.has_value(); });
  if (finite == 0) return std::nullopt;
  const auto [least, greatest] = std::ranges::minmax(values, {}, &FigureOfRun::value);
  const double difference = finite < std::ssize(values)
                                ? std::numeric_limits<double>::infinity()
                                : relative_difference(*least.value, *greatest.value);
  return StepDifference{
      .step = step, .difference = difference, .least = least, .greatest = greatest};
}

using StepOfRun = std::pair<const ComparisonRow*, StepLoss>;

// Relative differences between runs.
struct Differences {
  double loss = 0;
  double gradient_norm = 0;
};

// Returns what rounding alone causes at the first step. It causes more with each step.
Differences rounding_noise(const PrecisionSpec& precision) {
  if (precision == PrecisionSpec()) return {.loss = 2e-6, .gradient_norm = 1e-4};
  if (precision.kind == PrecisionKind::kBf16True) return {.loss = 3e-4, .gradient_norm = 1e-2};
  return {.loss = 1e-4, .gradient_norm = 3e-3};
}

// Steps with a high learning rate amplify rounding. Pairs of right runs used at most half of what
// this allows (tests/benchmark/loss_noise.py).
constexpr double kAmplification = 100;

// Sets `allowed`. `largest` is the largest difference of earlier steps, and is updated.
void judge(StepDifference& between, double noise, double& largest) {
  const double noise_of_step = std::min(kMostNoise, noise * static_cast<double>(between.step));
  between.allowed = std::max(noise_of_step, kAmplification * largest);
  largest = std::max(largest, between.difference);
}

// `largest` has the largest differences of earlier steps, and is updated.
void compare_step(LossAgreement& agreement, Differences& largest, int64_t step,
                  const std::vector<StepOfRun>& steps) {
  const auto spread = [&](std::optional<double> StepLoss::*figure) {
    return spread_of(step, mapped(steps, [&](const StepOfRun& of) {
                       return FigureOfRun{.run = of.first, .value = of.second.*figure};
                     }));
  };
  const Differences noise = rounding_noise(agreement.runs.front()->spec.precision);
  ++agreement.step_count;
  std::optional<StepDifference> of_loss = spread(&StepLoss::loss);
  if (!of_loss) ++agreement.not_finite_count;
  if (of_loss) {
    judge(*of_loss, noise.loss, largest.loss);
    agreement.differences.push_back(*of_loss);
  }
  std::optional<StepDifference> of_norm = spread(&StepLoss::gradient_norm);
  // A run may not have measured its gradient norms.
  if (of_norm && !std::isfinite(of_norm->difference)) of_norm.reset();
  if (of_norm) {
    of_norm->is_of_loss = false;
    judge(*of_norm, noise.gradient_norm, largest.gradient_norm);
  }
  for (const std::optional<StepDifference>& between : {of_loss, of_norm}) {
    const bool is_apart = between && between->difference > between->allowed;
    if (is_apart && !agreement.parting) agreement.parting = between;
  }
}

LossAgreement agreement_of(Runs runs) {
  const bool is_every_step =
      std::ranges::none_of(runs, [](const ComparisonRow* run) { return run->losses.empty(); });
  std::map<int64_t, std::vector<StepOfRun>> by_step;
  for (const ComparisonRow* run : runs) {
    for (const StepLoss& step : is_every_step ? run->losses : ends_of(*run)) {
      std::vector<StepOfRun>& known = by_step[step.step];
      if (known.empty() || known.back().first != run) known.emplace_back(run, step);
    }
  }
  LossAgreement agreement{.runs = std::move(runs), .is_every_step = is_every_step};
  Differences largest;
  for (const auto& [step, of_runs] : by_step) {
    if (of_runs.size() == agreement.runs.size()) compare_step(agreement, largest, step, of_runs);
  }
  agreement.difference = largest.loss;
  const bool is_from_first_step = !by_step.empty() && by_step.begin()->first == 1;
  agreement.is_whole = is_from_first_step && agreement.step_count == by_step.size();
  return agreement;
}

// Sorts runs by the first run that each agrees with. First runs of two parts do not agree.
std::vector<Runs> agreeing_parts(const Runs& alike) {
  std::vector<Runs> parts;
  for (const ComparisonRow* run : alike) {
    const auto part = std::ranges::find_if(parts, [&](const Runs& one) {
      return !agreement_of({one.front(), run}).parting;
    });
    if (part == parts.end()) {
      parts.push_back({run});
    } else {
      part->push_back(run);
    }
  }
  return parts;
}

// --- runs that are not compared ---

// Returns the differences between two runs that may change losses: "other optimizer.learning_rate,
// train.seed". Empty if no difference is found.
std::string differing_keys(const ComparisonRow& run, const ComparisonRow& other) {
  std::vector<std::string> names, names_with_dropout;
  if (run.data_digest != other.data_digest) names.push_back("input files");
  for (const auto& [key, value] : changed_keys(other.spec, run.spec, Effect::kNotLosses)) {
    if (key == "batch.total") continue;  // the total batches are equal
    const bool needs_dropout = find_run_spec_key(key)->effect == Effect::kLossesWithDropout;
    (needs_dropout ? names_with_dropout : names).push_back(key);
  }
  // Only the digests know if a model of other files has dropout.
  if (names.empty()) {
    for (const std::string& key : names_with_dropout) names.push_back(key + " (dropout)");
  }
  return names.empty() ? "" : "other " + first_names(names, kMostNamedKeys);
}

bool has_loss(const ComparisonRow* run) { return is_finished(run) && run->steps.value_or(0) > 0; }

// Returns the rows with a run that must have the losses of `like`.
SeriesRows rows_like(const ComparisonRow& like, Rows rows) {
  return only(rows, [&](const Series* row) {
    return std::ranges::any_of(row->runs, [&](const ComparisonRow* run) {
      return has_loss(run) && run->loss_digest == like.loss_digest;
    });
  });
}

}  // namespace

std::string why_not_compared(const ComparisonRow& run, const ComparisonRow& other) {
  if (run.loss_digest.empty()) return "no record of the settings that decide the losses";
  if (other.loss_digest.empty())
    return fmt::format("a record of the settings that decide the losses, but {} has none",
                       other.point);
  if (run.spec.method != other.spec.method) return kAnotherMethod;
  if (run.spec.batch.total != other.spec.batch.total) return "another batch";
  const std::string keys = differing_keys(run, other);
  return keys.empty() ? "another loss_digest" : keys;
}

bool is_resumed(const ComparisonRow& run) { return run.resumed_from_step.value_or(0) != 0; }

std::vector<LossAgreement> loss_agreements(Rows rows) {
  const Runs runs = only(finished_runs(rows), [](const ComparisonRow* run) {
    return !run->loss_digest.empty() && (!run->losses.empty() || run->steps.value_or(0) > 0);
  });
  std::vector<LossAgreement> agreements;
  for (auto& [digest, alike] : grouped(runs, [](auto* run) { return run->loss_digest; })) {
    // A run that lacks steps must not hide what others differ in there.
    std::ranges::stable_sort(alike, std::greater(), [](auto* run) { return run->losses.size(); });
    const std::vector<Runs> parts = agreeing_parts(alike);
    for (const Runs& part : parts) {
      if (part.size() > 1) agreements.push_back(agreement_of(part));
      if (&part == &parts.front()) continue;
      agreements.push_back(agreement_of({parts.front().front(), part.front()}));
    }
  }
  return agreements;
}

std::vector<std::pair<std::string, SeriesRows>> incomparable(const LossFacts& facts) {
  if (facts.agreements.empty()) return {};
  return only(facts.apart, [](const auto& apart) { return apart.first != kAnotherMethod; });
}

LossFacts loss_facts(Rows rows) {
  const SeriesRows finished =
      only(rows, [](const Series* row) { return std::ranges::any_of(row->runs, has_loss); });
  LossFacts facts{.runs = only(finished_runs(finished), has_loss),
                  .agreements = loss_agreements(finished)};
  if (facts.runs.empty()) return facts;
  const ComparisonRow* reference = facts.runs.front();
  facts.reference_rows = {finished.front()};
  for (const LossAgreement& agreement : facts.agreements) {
    const SeriesRows agreeing = rows_like(*agreement.runs.front(), finished);
    const bool is_first = &agreement == &facts.agreements.front();
    if (!is_first && agreeing.size() <= facts.reference_rows.size()) continue;
    facts.reference_rows = agreeing;
    reference = agreement.runs.front();
  }
  const SeriesRows others =
      only(finished, [&](const Series* row) { return !is_among(facts.reference_rows, row); });
  facts.apart = grouped(others, [&](const Series* row) {
    return why_not_compared(**std::ranges::find_if(row->runs, has_loss), *reference);
  });
  return facts;
}

}  // namespace fsdp
