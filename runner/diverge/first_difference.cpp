// Compares two runs' fingerprints of a step. A difference counts if those before it in the order of
// computation, or rounding, do not explain its size.
#include "runner/diverge/first_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
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
  // Sums of fingerprints have no more digits than those of fp64.
  double times(double roundoff) const { return std::max(of(roundoff) * roundoff, kSameSums); }
};
constexpr Limit kGrowth{30, 10};
constexpr Limit kUpdateGrowth{30, 20};
constexpr Limit kForwardUnits{300, 2};
constexpr Limit kBackwardUnits{1000, 4};
constexpr Limit kReductionUnits{100, 4};
constexpr Limit kStateUnits{300, 2};
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
        roundoff_(wider(one.step.begin.roundoff, other.step.begin.roundoff)),
        pairs_(pairs_of(one.step, other.step)) {}

  std::optional<FirstDifference> first() {
    require_common_names();
    using Check = std::optional<FirstDifference> (StepComparison::*)();
    constexpr Check kChecks[] = {&StepComparison::rows,
                                 &StepComparison::labels,
                                 &StepComparison::start<Quantity::kWeight, Quantity::kNewWeight>,
                                 &StepComparison::start<Quantity::kState, Quantity::kNewState>,
                                 &StepComparison::read_weights<Quantity::kForwardWeight>,
                                 &StepComparison::activations,
                                 &StepComparison::loss,
                                 &StepComparison::read_weights<Quantity::kBackwardWeight>,
                                 &StepComparison::repeated_inputs,
                                 &StepComparison::activation_gradients,
                                 &StepComparison::local_gradients,
                                 &StepComparison::reductions,
                                 &StepComparison::gradients,
                                 &StepComparison::clipping<Quantity::kGradientNorm>,
                                 &StepComparison::clipping<Quantity::kClipDivisor>,
                                 &StepComparison::new_states,
                                 &StepComparison::updates};
    for (const Check check : kChecks) {
      std::optional<FirstDifference> found = (this->*check)();
      if (!found) continue;
      found->step = one_.step.step();
      return found;
    }
    return std::nullopt;
  }

 private:
  const Pairs& pairs(Quantity of) const {
    static const Pairs kNone;
    const auto found = pairs_.find(of);
    return found == pairs_.end() ? kNone : found->second;
  }

  void require_common_names() const {
    const auto is_tensor = [](const Computed& one) { return !one.name.empty() && one.row.empty(); };
    for (const auto& [of, both] : pairs_) {
      if (is_tensor(*both.front().one)) return;
    }
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
  template <typename SizeOf, typename MostOf>
  std::optional<FirstDifference> first_apart(const Pairs& all, Cause cause, double unit,
                                             SizeOf size_of, MostOf most_of) const {
    std::optional<FirstDifference> found;
    for (const Pair& pair : all) {
      const double size = size_of(pair);
      if (size <= most_of(pair)) continue;
      if (!found) found = described(one_, other_, pair, cause, size, unit);
      ++found->differing;
    }
    if (found) found->compared = std::ssize(all);
    return found;
  }

  std::optional<FirstDifference> first_apart(const Pairs& all, Cause cause, double unit,
                                             double most) const {
    return first_apart(
        all, cause, unit, [](const Pair& pair) { return pair.size(); },
        [&](const Pair&) { return most; });
  }

  // Returns the largest difference of a quantity that rounding and earlier differences explain.
  double most(const Limit& units, double unit) const {
    return grown(std::max(level_, units.times(unit)));
  }

  double grown(double level) const {
    return std::min(kMost, kGrowth.of(roundoff_.compute) * level);
  }

  std::optional<FirstDifference> disagreement(Quantity of, Cause cause, double unit) const {
    for (const StepOfRun* run : {&one_, &other_}) {
      if (auto found = fsdp::disagreement(*run, of, cause, unit)) return found;
    }
    return std::nullopt;
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

  std::optional<FirstDifference> labels() {
    return first_apart(pairs(Quantity::kLabels), Cause::kLabels, roundoff_.compute, 0);
  }

  // The step must begin with what the step before has left.
  template <Quantity kOf, Quantity kLeft>
  std::optional<FirstDifference> start() {
    if (auto found = disagreement(kOf, Cause::kResume, roundoff_.parameters)) return found;
    for (const StepOfRun* run : {&one_, &other_}) {
      if (run->before == nullptr) continue;
      const Pairs both = pairs_between(*run->before, kLeft, run->step, kOf);
      if (auto found = first_apart(both, Cause::kResume, roundoff_.parameters, kSameSums)) {
        found->at_fault = run->run;
        return found;
      }
    }
    return judged_start(kOf);
  }

  // After the first step, and unless the run has just resumed, a difference may be the rounding of
  // the steps before. If it is large, nothing can be told of this step.
  std::optional<FirstDifference> judged_start(Quantity of) {
    const Pairs& both = pairs(of);
    const auto is_resumed = [](const StepOfRun& run) {
      const int64_t from = run.step.begin.resumed_from_step;
      return from > 0 && from + 1 == run.step.step();
    };
    if (one_.step.step() == 1) {
      return first_apart(both, Cause::kFirstWeights, roundoff_.parameters, kSameSums);
    }
    if (is_resumed(one_) || is_resumed(other_)) {
      if (auto found = first_apart(both, Cause::kResume, roundoff_.parameters, kMost)) return found;
    }
    if (of != Quantity::kWeight) return std::nullopt;
    const ModuleScales scales(both, 1);
    for (const Pair& pair : both) {
      level_ = std::max(level_, scales.relative_size(pair));
      if (is_of_adapter(pair)) adapter_level_ = std::max(adapter_level_, pair.size());
    }
    return first_apart(
        both, Cause::kTooFar, roundoff_.parameters,
        [&](const Pair& pair) { return scales.relative_size(pair); },
        [&](const Pair&) { return kMost / kGrowth.of(roundoff_.compute); });
  }

  // A trained weight that is read must be what the ranks own, but for its conversion. Frozen
  // weights are compared between the runs.
  template <Quantity kOf>
  std::optional<FirstDifference> read_weights() {
    std::optional<FirstDifference> found = disagreement(kOf, Cause::kGather, roundoff_.compute);
    if (!found) {
      found = first_apart(
          pairs(kOf), Cause::kGather, roundoff_.compute,
          [&](const Pair& pair) {
            const bool is_frozen = !own(one_, *pair.one) || !own(other_, *pair.other);
            return is_frozen ? pair.size()
                             : std::max(error(one_, *pair.one), error(other_, *pair.other));
          },
          [&](const Pair& pair) { return most_of_read(pair); });
      if (found) found->at_fault = farther_from_own(*found);
    }
    if (found && is_stale(*found)) found->cause = Cause::kStaleWeights;
    return found;
  }

  // A conversion to a narrower dtype loses as much in both runs.
  double most_of_read(const Pair& pair) const {
    const bool is_converted = roundoff_.compute > roundoff_.parameters;
    if (own(one_, *pair.one) && !is_converted) return kSameSums;
    const double both = std::min(error(one_, *pair.one), error(other_, *pair.other));
    return std::max(most(kForwardUnits, roundoff_.compute), kGrowth.narrow * both);
  }

  // Returns the parts that the ranks own of a weight that is read; null: it is frozen.
  static const Computed* own(const StepOfRun& run, const Computed& read) {
    return run.step.find(Quantity::kWeight, read.name);
  }

  static double error(const StepOfRun& run, const Computed& read) {
    const Computed* parts = own(run, read);
    return parts == nullptr ? 0 : relative(distance(parts->sums, read.sums), parts->sums.norm());
  }

  std::string farther_from_own(const FirstDifference& found) const {
    const double here = error(one_, *one_.step.find(found.of, found.name));
    const double there = error(other_, *other_.step.find(found.of, found.name));
    if (here == there) return {};
    return here > there ? one_.run : other_.run;
  }

  // True if a rank of the run at fault reads what the weight was before the step before.
  bool is_stale(const FirstDifference& found) const {
    const StepOfRun& run = found.at_fault == one_.run ? one_ : other_;
    if (run.run != found.at_fault || run.before == nullptr) return false;
    const Computed* read = run.step.find(found.of, found.name);
    const Computed* parts = own(run, *read);
    const Computed* earlier = run.before->find(Quantity::kWeight, found.name);
    if (parts == nullptr || earlier == nullptr) return false;
    std::vector<Sums> all{read->sums};
    if (read->disagreement) all = {read->disagreement->sums, read->disagreement->other_sums};
    return std::ranges::any_of(all, [&](const Sums& sums) {
      return distance(sums, earlier->sums) < 0.5 * distance(sums, parts->sums);
    });
  }

  std::optional<FirstDifference> activations() {
    return modules(Quantity::kActivation, kForwardUnits);
  }

  // Compares rows module by module. The first module with a row that differs more than its inputs
  // explain is the first difference.
  std::optional<FirstDifference> modules(Quantity of, const Limit& units) {
    const Pairs& all = pairs(of);
    for (auto begin = all.begin(); begin != all.end();) {
      const auto end = std::find_if(
          begin, all.end(), [&](const Pair& pair) { return pair.one->name != begin->one->name; });
      const Pairs module(begin, end);
      if (auto found =
              rows_apart(one_, other_, module, most(units, roundoff_.compute), roundoff_.compute)) {
        return found;
      }
      for (const Pair& pair : module) level_ = std::max(level_, pair.size());
      begin = end;
    }
    return std::nullopt;
  }

  std::optional<FirstDifference> loss() {
    auto found = first_apart(pairs(Quantity::kLoss), Cause::kHead, roundoff_.compute,
                             most(kForwardUnits, roundoff_.compute));
    if (found && found->ratio && is_simple(*found->ratio)) found->cause = Cause::kFactor;
    return found;
  }

  // A recomputed module must read what the module before it gave in the first forward.
  std::optional<FirstDifference> repeated_inputs() {
    for (const StepOfRun* run : {&one_, &other_}) {
      std::map<std::string, std::string> before;  // by module
      std::string last;
      for (const Computed& each : run->step.computed) {
        const bool is_stream =
            each.of == Quantity::kActivation && each.name.find('/') == each.name.npos;
        if (is_stream && each.name != last)
          before.try_emplace(each.name, std::exchange(last, each.name));
      }
      Pairs both;
      for (const Computed& again : run->step.computed) {
        if (again.of != Quantity::kRepeatedInput) continue;
        const Computed* first =
            run->step.find(Quantity::kActivation, before[again.name], "", again.row);
        if (first != nullptr) both.push_back({first, &again});
      }
      auto found = first_apart(both, Cause::kRepeatedForward, roundoff_.compute, kSameSums);
      if (!found) continue;
      found->at_fault = run->run;
      return found;
    }
    return std::nullopt;
  }

  std::optional<FirstDifference> activation_gradients() {
    return with_recomputation(modules(Quantity::kActivationGradient, kBackwardUnits));
  }

  // If only one run recomputes, the repeated forward is the likely cause.
  std::optional<FirstDifference> with_recomputation(std::optional<FirstDifference> found) const {
    const bool is_likely = one_.step.begin.recomputes != other_.step.begin.recomputes;
    if (found && found->cause == Cause::kComputation && is_likely) {
      found->cause = Cause::kRepeatedForward;
    }
    return found;
  }

  std::optional<FirstDifference> gradients_apart(Quantity of, Cause cause, double unit,
                                                 double most) const {
    const Pairs& all = pairs(of);
    const ModuleScales scales(all, 0.01);
    auto found = first_apart(
        all, cause, unit, [&](const Pair& pair) { return scales.relative_size(pair); },
        [&](const Pair& pair) {
          return is_of_adapter(pair) ? std::max(most, grown(adapter_level_)) : most;
        });
    if (found && found->ratio) found->cause = Cause::kFactor;
    return found;
  }

  std::optional<FirstDifference> local_gradients() {
    return with_recomputation(gradients_apart(Quantity::kLocalGradient, Cause::kComputation,
                                              roundoff_.compute,
                                              most(kBackwardUnits, roundoff_.compute)));
  }

  // A reduced gradient must be the sum of the ranks' own, which is exact but for the reduction's
  // rounding.
  std::optional<FirstDifference> reductions() {
    if (auto found =
            disagreement(Quantity::kGradient, Cause::kMissingReduction, roundoff_.reduction)) {
      return found;
    }
    for (const StepOfRun* run : {&one_, &other_}) {
      auto found = first_apart(
          pairs_between(run->step, Quantity::kLocalGradient, run->step, Quantity::kGradient),
          Cause::kReduction, roundoff_.reduction,
          [](const Pair& pair) {
            // The squares of the ranks' own do not add up.
            return relative(pair.distance(),
                            pair.other->sums.norm() + pair.one->sums.projected_norm());
          },
          [&](const Pair&) { return kReductionUnits.times(roundoff_.reduction); });
      if (!found) continue;
      if (found->cause == Cause::kNotFinite) return found;
      found->at_fault = run->run;
      if (found->ratio) {
        found->cause = Cause::kReductionFactor;
      } else if (is_rounding(*found)) {
        found->cause = Cause::kPrecision;
      }
      return found;
    }
    return std::nullopt;
  }

  std::optional<FirstDifference> gradients() {
    return gradients_apart(Quantity::kGradient, Cause::kReduction, roundoff_.reduction,
                           std::max(most(kBackwardUnits, roundoff_.compute),
                                    most(kReductionUnits, roundoff_.reduction)));
  }

  template <Quantity kOf>
  std::optional<FirstDifference> clipping() {
    if (auto found = disagreement(kOf, Cause::kClipping, roundoff_.compute)) return found;
    return first_apart(pairs(kOf), Cause::kClipping, roundoff_.compute,
                       most(kForwardUnits, roundoff_.compute));
  }

  std::optional<FirstDifference> new_states() {
    if (auto found =
            disagreement(Quantity::kNewState, Cause::kOptimizerState, roundoff_.parameters)) {
      return found;
    }
    find_input_levels();
    return first_apart(
        pairs(Quantity::kNewState), Cause::kOptimizerState, roundoff_.parameters,
        [](const Pair& pair) { return pair.size(); },
        [&](const Pair& pair) {
          const double least =
              has_codes(*pair.one) ? kLeastOfCodes : kStateUnits.times(roundoff_.states);
          return grown(std::max(least, input_levels_[pair.one->name]));
        });
  }

  // Finds how far the inputs of each tensor's update are apart, relative to the tensor's own size.
  void find_input_levels() {
    for (const Pair& pair : pairs(Quantity::kNewWeight)) {
      input_levels_[pair.one->name] =
          std::max({kStateUnits.times(roundoff_.parameters), kStateUnits.times(roundoff_.reduction),
                    kStateUnits.times(roundoff_.compute)});
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
    if (auto found = disagreement(Quantity::kNewWeight, Cause::kUpdate, roundoff_.parameters)) {
      return found;
    }
    const std::vector<Computed> here = updates_of(one_.step);
    const std::vector<Computed> there = updates_of(other_.step);
    Pairs both;
    for (const Computed& update : here) {
      const auto other = std::ranges::find(there, update.name, &Computed::name);
      if (other != there.end()) both.push_back({&update, &*other});
    }
    auto found = first_apart(
        both, Cause::kUpdate, roundoff_.parameters, [](const Pair& pair) { return pair.size(); },
        [&](const Pair& pair) { return most_of_update(pair); });
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
  std::map<Quantity, Pairs> pairs_;
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
