// Compares two runs' fingerprints of a step. A difference counts if those before it in the order of
// computation, or rounding, do not explain its size.
#include "runner/diverge/first_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <deque>
#include <functional>
#include <limits>
#include <set>
#include <stdexcept>

#include "runner/diverge/findings.h"
#include "runner/diverge/pairs.h"

namespace fsdp {
namespace {

// A limit in fp32, and one in 16 bits. There, rounding leaves less room below the signal. kGrowth
// says how many times a difference may be as large as that of its inputs. The others are the units
// of rounding that a quantity may have by itself. tests/benchmark/fingerprint_noise.py measures
// them.
struct Limit {
  double fp32;
  double narrow;

  double of(double roundoff) const { return roundoff > Roundoff::kFp32 ? narrow : fp32; }
  // Fingerprints are sums in fp64, so they have no more digits.
  double times(double roundoff) const { return std::max(of(roundoff) * roundoff, kSameSums); }
};
constexpr Limit kGrowth{30, 10};
constexpr Limit kUpdateGrowth{30, 20};
constexpr Limit kForwardUnits{300, 2};
constexpr Limit kBackwardUnits{1000, 4};
constexpr Limit kReductionUnits{100, 4};
constexpr Limit kStateUnits{300, 2};
constexpr Limit kSame{0, 0};
// A larger difference is never rounding.
constexpr double kMost = 0.5;
// An element between two codes may get either. If its second moment gets the code of 0 in one run
// only, its update there may be larger than all others together. Updates then tell something only
// if they have the same direction.
constexpr double kLeastOfCodes = 2e-3;
constexpr double kLeastOfUpdateByCodes = 3e-2;
constexpr double kLeastCosineByCodes = 0.9;

Roundoff wider(const Roundoff& one, const Roundoff& other) {
  return {.compute = std::max(one.compute, other.compute),
          .reduction = std::max(one.reduction, other.reduction),
          .parameters = std::max(one.parameters, other.parameters),
          .states = std::max(one.states, other.states)};
}

// An adapter's gradient is as far apart as its other factor is, and B begins with zeros.
bool is_of_adapter(const Pair& pair) { return pair.one->name.find(".lora_") != std::string::npos; }

// The scale of a block is the largest of its elements, which come from codes.
bool has_codes(const Computed& state) {
  return state.state.ends_with("_codes") || state.state.ends_with("_absmax");
}

// True for n and 1 / n, as ranks and micro-batches are counted.
bool is_simple(double ratio) {
  const double whole = std::max(std::abs(ratio), 1 / std::abs(ratio));
  return whole > 1.5 && std::abs(whole - std::round(whole)) < 1e-3 * whole;
}

class StepComparison {
 public:
  StepComparison(const StepOfRun& one, const StepOfRun& other)
      : one_(one),
        other_(other),
        roundoff_(wider(one.step.begin.roundoff, other.step.begin.roundoff)) {}

  std::optional<FirstDifference> first() {
    require_common_names();
    using enum Quantity;
    using Me = StepComparison;
    const auto& [compute, reduction, parameters, states] = roundoff_;
    const Cause start = one_.step.step() == 1 ? Cause::kFirstWeights : Cause::kResume;
    const Check checks[] = {
        {kInputIds, Cause::kRows, compute, kSame, &Me::rows},
        {kLabels, Cause::kLabels, compute, kSame, &Me::labels},
        {kWeight, start, parameters, kSame, &Me::start},
        {kState, start, states, kSame, &Me::start},
        {kForwardWeight, Cause::kGather, compute, kForwardUnits, &Me::read_weights},
        {kActivation, Cause::kComputation, compute, kForwardUnits, &Me::modules},
        {kLoss, Cause::kHead, compute, kForwardUnits, &Me::numbers},
        {kBackwardWeight, Cause::kGather, compute, kForwardUnits, &Me::read_weights},
        {kRepeatedInput, Cause::kRepeatedForward, compute, kSame, &Me::repeated_inputs},
        {kActivationGradient, Cause::kComputation, compute, kBackwardUnits, &Me::modules},
        {kLocalGradient, Cause::kComputation, compute, kBackwardUnits, &Me::gradients},
        {kGradient, Cause::kMissingReduction, reduction, kReductionUnits, &Me::reductions},
        {kGradient, Cause::kReduction, reduction, kReductionUnits, &Me::gradients},
        {kGradientNorm, Cause::kClipping, compute, kForwardUnits, &Me::numbers},
        {kClipDivisor, Cause::kClipping, compute, kForwardUnits, &Me::numbers},
        {kNewState, Cause::kOptimizerState, states, kStateUnits, &Me::new_states},
        {kNewWeight, Cause::kUpdate, parameters, kStateUnits, &Me::updates}};
    for (const Check& check : checks) {
      check_ = check;
      std::optional<FirstDifference> found = disagreement();
      if (!found) found = (this->*check.find)();
      if (!found) continue;
      found->step = one_.step.step();
      explain(*found);
      return found;
    }
    return std::nullopt;
  }

 private:
  // How a quantity is compared.
  struct Check {
    Quantity of{};
    Cause cause{};    // if no more is known; also if ranks of a run do not agree
    double unit = 0;  // of rounding
    Limit units{};    // that it may have by itself
    std::optional<FirstDifference> (StepComparison::*find)() = nullptr;
  };

  Pairs pairs(Quantity of) const { return pairs_between(one_.step, of, other_.step, of); }

  void require_common_names() const {
    const auto is_tensor = [](const Computed& one) { return !one.name.empty() && one.row.empty(); };
    const auto is_common = [&](const Computed& one) {
      return is_tensor(one) && other_.step.find(one.of, one.name, one.state) != nullptr;
    };
    if (std::ranges::any_of(one_.step.computed, is_common)) return;
    const auto first_name = [&](const StepFingerprints& step) {
      const auto found = std::ranges::find_if(step.computed, is_tensor);
      return found == step.computed.end() ? "none" : found->name;
    };
    throw std::runtime_error(fmt::format(
        "step {}: no tensor of {} has the name of one of {}: '{}' and '{}'", one_.step.step(),
        one_.run, other_.run, first_name(one_.step), first_name(other_.step)));
  }

  // --- findings ---

  // Returns the first pair with a larger size than `most_of` allows, and how many there are.
  template <std::invocable<const Pair&> MostOf, typename SizeOf = double (Pair::*)() const>
  std::optional<FirstDifference> first_apart(const Pairs& all, MostOf most_of,
                                             SizeOf size_of = &Pair::size) const {
    std::optional<FirstDifference> found;
    for (const Pair& pair : all) {
      const double size = std::invoke(size_of, pair);
      if (size <= most_of(pair)) continue;
      if (!found) found = described(one_, other_, pair, check_.cause, size, check_.unit);
      ++found->differing;
    }
    if (found) found->compared = std::ssize(all);
    return found;
  }

  std::optional<FirstDifference> first_apart(const Pairs& all, double most) const {
    return first_apart(all, [=](const Pair&) { return most; });
  }

  // Compares what each run has twice, as `pairs_in` returns it. A difference tells which run is
  // wrong.
  template <typename PairsIn, typename... Sizes>
  std::optional<FirstDifference> first_within_a_run(PairsIn pairs_in, Sizes... sizes) const {
    for (const StepOfRun* run : {&one_, &other_}) {
      std::optional<FirstDifference> found = first_apart(pairs_in(*run), sizes...);
      if (!found) continue;
      found->at_fault = run->run;
      return found;
    }
    return std::nullopt;
  }

  std::optional<FirstDifference> disagreement() const {
    for (const StepOfRun* run : {&one_, &other_}) {
      if (auto found = fsdp::disagreement(*run, check_.of, check_.cause, check_.unit)) return found;
    }
    return std::nullopt;
  }

  // Returns the difference of the quantity that rounding alone explains.
  double least() const { return check_.units.times(check_.unit); }
  // Returns the largest difference that rounding and earlier differences explain.
  double most() const { return grown(std::max(level_, least())); }

  double grown(double level) const {
    return std::min(kMost, kGrowth.of(roundoff_.compute) * level);
  }

  // Replaces the cause by a better one if the runs tell more.
  void explain(FirstDifference& found) const {
    const bool is_of_backward =
        found.of == Quantity::kActivationGradient || found.of == Quantity::kLocalGradient;
    const bool one_recomputes = one_.step.begin.recomputes != other_.step.begin.recomputes;
    if (found.cause == Cause::kGather && is_stale(found)) {
      found.cause = Cause::kStaleWeights;
    } else if (found.cause == Cause::kHead && found.ratio && is_simple(*found.ratio)) {
      found.cause = Cause::kFactor;
    } else if (found.cause == Cause::kComputation && is_of_backward && one_recomputes) {
      found.cause = Cause::kRepeatedForward;
    }
  }

  // --- checks, in the order of a step ---

  std::optional<FirstDifference> rows() {
    const auto only_in = [](const StepFingerprints& run, const StepFingerprints& other) {
      std::vector<int64_t> numbers;
      for (const auto& [key, place] : run.rows) {
        if (!other.rows.contains(key)) numbers.push_back(place.number);
      }
      std::ranges::sort(numbers);
      return numbers;
    };
    const std::vector<int64_t> here = only_in(one_.step, other_.step);
    const std::vector<int64_t> there = only_in(other_.step, one_.step);
    if (here.empty() && there.empty()) return std::nullopt;
    FirstDifference found{.of = Quantity::kInputIds, .cause = Cause::kRows};
    found.rows = here.empty() ? there : here;
    found.differing = std::ssize(found.rows);
    found.compared = std::ssize(one_.step.rows);
    return found;
  }

  std::optional<FirstDifference> labels() { return first_apart(pairs(check_.of), 0); }

  // The step must begin with what the step before has left. After the first step, and unless the
  // run has just resumed, a difference of the runs may be the rounding of the steps before. If it
  // is large, nothing can be told of this step.
  std::optional<FirstDifference> start() {
    const Quantity left =
        check_.of == Quantity::kWeight ? Quantity::kNewWeight : Quantity::kNewState;
    const auto left_and_found = [&](const StepOfRun& run) {
      return run.before ? pairs_between(*run.before, left, run.step, check_.of) : Pairs();
    };
    if (auto found = first_within_a_run(left_and_found, least())) return found;
    const Pairs both = pairs(check_.of);
    const auto is_resumed = [](const StepOfRun& run) {
      const int64_t from = run.step.begin.resumed_from_step;
      return from > 0 && from + 1 == run.step.step();
    };
    if (one_.step.step() == 1) return first_apart(both, least());
    if (is_resumed(one_) || is_resumed(other_)) {
      if (auto found = first_apart(both, kMost)) return found;
    }
    if (check_.of != Quantity::kWeight) return std::nullopt;
    const ModuleScales scales(both, 1);
    for (const Pair& pair : both) {
      level_ = std::max(level_, scales.relative_size(pair));
      if (is_of_adapter(pair)) adapter_level_ = std::max(adapter_level_, pair.size());
    }
    check_.cause = Cause::kTooFar;
    return first_apart(
        both, [&](const Pair&) { return kMost / kGrowth.of(roundoff_.compute); },
        [&](const Pair& pair) { return scales.relative_size(pair); });
  }

  // A trained weight that is read must be what the ranks own, but for its conversion. Frozen
  // weights are compared between the runs.
  std::optional<FirstDifference> read_weights() {
    const auto owned_and_read = [&](const StepOfRun& run) {
      return pairs_between(run.step, Quantity::kWeight, run.step, check_.of);
    };
    auto found = first_within_a_run(owned_and_read,
                                    [&](const Pair& pair) { return most_of_read(pair.one->name); });
    if (found) return found;
    Pairs frozen = pairs(check_.of);
    std::erase_if(frozen, [&](const Pair& pair) {
      return one_.step.find(Quantity::kWeight, pair.one->name) &&
             other_.step.find(Quantity::kWeight, pair.one->name);
    });
    return first_apart(frozen, most());
  }

  // A conversion to a narrower dtype loses as much in both runs.
  double most_of_read(const std::string& name) const {
    if (roundoff_.compute <= roundoff_.parameters) return kSameSums;
    const auto loss_in = [&](const StepOfRun& run) {
      const Computed* owned = run.step.find(Quantity::kWeight, name);
      const Computed* read = run.step.find(check_.of, name);
      return owned && read ? Pair{owned, read}.size() : 0;
    };
    return std::max(most(), kGrowth.narrow * std::min(loss_in(one_), loss_in(other_)));
  }

  // True if a rank of the run at fault reads what the weight was before the step before.
  bool is_stale(const FirstDifference& found) const {
    const StepOfRun& run = found.at_fault == one_.run ? one_ : other_;
    if (run.run != found.at_fault || run.before == nullptr) return false;
    const Computed* read = run.step.find(found.of, found.name);
    const Computed* parts = run.step.find(Quantity::kWeight, found.name);
    const Computed* earlier = run.before->find(Quantity::kWeight, found.name);
    if (parts == nullptr || earlier == nullptr) return false;
    std::vector<Sums> all{read->sums};
    if (read->disagreement) all = {read->disagreement->sums, read->disagreement->other_sums};
    return std::ranges::any_of(all, [&](const Sums& sums) {
      return distance(sums, earlier->sums) < 0.5 * distance(sums, parts->sums);
    });
  }

  // Compares rows module by module. The first module with a row that differs more than its inputs
  // explain is the first difference.
  std::optional<FirstDifference> modules() {
    const Pairs all = pairs(check_.of);
    for (auto begin = all.begin(); begin != all.end();) {
      const auto end = std::find_if(
          begin, all.end(), [&](const Pair& pair) { return pair.one->name != begin->one->name; });
      const Pairs module(begin, end);
      if (auto found = rows_apart(one_, other_, module, most(), check_.unit)) return found;
      for (const Pair& pair : module) level_ = std::max(level_, pair.size());
      begin = end;
    }
    return std::nullopt;
  }

  std::optional<FirstDifference> numbers() { return first_apart(pairs(check_.of), most()); }

  // A recomputed module must read what the module before it gave in the first forward.
  std::optional<FirstDifference> repeated_inputs() {
    const auto given_and_read = [](const StepOfRun& run) {
      std::map<std::string, std::string> before;  // by module
      std::string last;
      for (const Computed& each : run.step.computed) {
        const bool is_stream =
            each.of == Quantity::kActivation && each.name.find('/') == each.name.npos;
        if (is_stream && each.name != last)
          before.try_emplace(each.name, std::exchange(last, each.name));
      }
      Pairs both;
      for (const Computed& again : run.step.computed) {
        if (again.of != Quantity::kRepeatedInput) continue;
        const Computed* first =
            run.step.find(Quantity::kActivation, before[again.name], "", again.row);
        if (first != nullptr) both.push_back({first, &again});
      }
      return both;
    };
    return first_within_a_run(given_and_read, least());
  }

  // A reduced gradient must be the sum of the ranks' own, which is exact but for the reduction's
  // rounding.
  std::optional<FirstDifference> reductions() {
    auto found = first_within_a_run(
        [](const StepOfRun& run) {
          return pairs_between(run.step, Quantity::kLocalGradient, run.step, Quantity::kGradient);
        },
        [&](const Pair&) { return least(); },
        [](const Pair& pair) {
          // The squares of the ranks' own do not add up.
          return relative(pair.distance(),
                          pair.other->sums.norm() + pair.one->sums.projected_norm());
        });
    if (!found || found->cause == Cause::kNotFinite) return found;
    found->cause = found->ratio          ? Cause::kReductionFactor
                   : is_rounding(*found) ? Cause::kPrecision
                                         : Cause::kReduction;
    return found;
  }

  std::optional<FirstDifference> gradients() {
    const Pairs all = pairs(check_.of);
    const ModuleScales scales(all, 0.01);
    const double most_of_all = std::max(most(), grown(kBackwardUnits.times(roundoff_.compute)));
    auto found = first_apart(
        all,
        [&](const Pair& pair) {
          return is_of_adapter(pair) ? std::max(most_of_all, grown(adapter_level_)) : most_of_all;
        },
        [&](const Pair& pair) { return scales.relative_size(pair); });
    if (found && found->ratio) found->cause = Cause::kFactor;
    return found;
  }

  std::optional<FirstDifference> new_states() {
    find_input_levels();
    return first_apart(pairs(check_.of), [&](const Pair& pair) {
      const double own = has_codes(*pair.one) ? kLeastOfCodes : least();
      return grown(std::max(own, input_levels_[pair.one->name]));
    });
  }

  // Finds how far the inputs of each tensor's update are apart, relative to the tensor's own size.
  void find_input_levels() {
    for (const Pair& pair : pairs(Quantity::kNewWeight)) {
      input_levels_[pair.one->name] = kStateUnits.times(
          std::max({roundoff_.parameters, roundoff_.reduction, roundoff_.compute}));
    }
    for (const Quantity of : {Quantity::kGradient, Quantity::kState}) {
      for (const Pair& pair : pairs(of)) {
        double& level = input_levels_[pair.one->name];
        level = std::max({level, pair.size(), is_of_adapter(pair) ? adapter_level_ : 0});
        if (has_codes(*pair.one)) with_codes_.insert(pair.one->name);
      }
    }
  }

  std::optional<FirstDifference> updates() {
    std::deque<Computed> updates;  // of both runs in turn
    Pairs both;
    const auto update = [&](const Computed& before, const Computed& after) {
      updates.push_back(after);
      updates.back().sums = after.sums - before.sums;
      return &updates.back();
    };
    for (const Pair& after : pairs(check_.of)) {
      const Computed* one = one_.step.find(Quantity::kWeight, after.one->name);
      const Computed* other = other_.step.find(Quantity::kWeight, after.one->name);
      if (one && other) both.push_back({update(*one, *after.one), update(*other, *after.other)});
    }
    auto found = first_apart(both, [&](const Pair& pair) { return most_of_update(pair); });
    if (!found) return std::nullopt;
    const Pair& pair =
        *std::ranges::find(both, found->name, [](const Pair& each) { return each.one->name; });
    const Sums& weight = one_.step.find(Quantity::kWeight, found->name)->sums;
    const bool is_along_weight = std::abs(cosine(pair.other->sums - pair.one->sums, weight)) > 0.99;
    if (is_along_weight) found->cause = Cause::kWeightDecay;
    return found;
  }

  // Adam divides by the gradient's own size, so an element whose gradient is only noise has an
  // update of any sign. The updates then differ by the root of the gradients' difference.
  double most_of_update(const Pair& pair) {
    const Computed& update = *pair.one;
    const bool is_by_codes = with_codes_.contains(update.name);
    if (is_by_codes && cosine(update.sums, pair.other->sums) < kLeastCosineByCodes)
      return std::numeric_limits<double>::infinity();
    const double least = is_by_codes ? kLeastOfUpdateByCodes : 0;
    const double growth = kGrowth.of(roundoff_.compute);
    const double weight_norm = one_.step.find(Quantity::kWeight, update.name)->sums.norm();
    const double of_weight = relative(roundoff_.parameters * weight_norm, update.sums.norm());
    return std::sqrt(kUpdateGrowth.of(roundoff_.compute) *
                     std::max(least, input_levels_[update.name])) +
           growth * of_weight;
  }

  const StepOfRun& one_;
  const StepOfRun& other_;
  Roundoff roundoff_;
  Check check_{};                               // that goes on
  double adapter_level_ = 0;                    // of adapters' weights, by their own norms
  double level_ = 0;                            // the largest difference so far that was accepted
  std::map<std::string, double> input_levels_;  // by tensor
  std::set<std::string> with_codes_;            // tensors whose state is quantized
};

}  // namespace

std::optional<FirstDifference> first_difference(const StepOfRun& one, const StepOfRun& other) {
  return StepComparison(one, other).first();
}

}  // namespace fsdp
