// Words the first difference of two runs.
#include "runner/diverge/difference_text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text/utf8.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

// "the gradient of model.norm.weight"
std::string what_text(const FirstDifference& difference) {
  const std::string of = difference.name.empty() ? "" : " of " + visible_line(difference.name);
  switch (difference.of) {
    case Quantity::kInputIds:
      return "the tokens of a row";
    case Quantity::kLabels:
      return "the labels of a row";
    case Quantity::kWeight:
      return "the weight" + of + " at the step's begin";
    case Quantity::kState:
      return difference.state + of + " at the step's begin";
    case Quantity::kForwardWeight:
      return "the weight" + of + " that forward reads";
    case Quantity::kActivation:
      return "the output" + of + " in forward";
    case Quantity::kLoss:
      return "the loss";
    case Quantity::kBackwardWeight:
      return "the weight" + of + " that backward reads";
    case Quantity::kRepeatedInput:
      return "the input" + of + " in the repeated forward";
    case Quantity::kActivationGradient:
      return "the gradient of the output" + of;
    case Quantity::kLocalGradient:
      return "the gradient" + of + " before its reduction";
    case Quantity::kGradient:
      return "the gradient" + of + " after its reduction";
    case Quantity::kGradientNorm:
      return "the gradient norm";
    case Quantity::kClipDivisor:
      return "the divisor that clips gradients";
    case Quantity::kNewState:
      return difference.state + of + " after the step";
    case Quantity::kNewWeight:
      return "the update" + of;
  }
  return "";
}

}  // namespace

std::string cause_text(const FirstDifference& difference) {
  const std::string run = difference.at_fault.empty() ? "one run" : difference.at_fault;
  switch (difference.cause) {
    case Cause::kRows:
      return "the runs read other rows (another order, seed or start of the data), or rows whose "
             "labels end elsewhere";
    case Cause::kLabels:
      return "the same tokens have other labels: a shift, or a mask of the prompt";
    case Cause::kFirstWeights:
      return "the runs begin with other weights";
    case Cause::kResume:
      return "the step does not begin with what the step before has left: a resume that lost it, "
             "or a stray write";
    case Cause::kTooFar:
      return "their weights are too far apart to tell a fault from rounding";
    case Cause::kStaleWeights:
      return run + " computes with stale weights, those of the step before";
    case Cause::kGather:
      return run +
             " computes with other weights than its ranks own: a gather that came too "
             "early, or went wrong";
    case Cause::kPositions:
      return "another mask, or other positions of tokens";
    case Cause::kOneRank:
      return "only some ranks of " + run + " compute it differently";
    case Cause::kComputation:
      return "equal inputs and weights give something else: another rule of this unit";
    case Cause::kPrecision:
      return "rounding of another dtype";
    case Cause::kFactor:
      return "a constant factor: a wrong divisor of the loss, or a scale";
    case Cause::kHead:
      return "the head, or the divisor of the loss: does each token count alike, in all ranks and "
             "micro-batches?";
    case Cause::kRepeatedForward:
      return "recomputation: the repeated forward is not the first one (dropout's seed, or an "
             "input that changed)";
    case Cause::kMissingReduction:
      return "the reduction is missing: ranks of " + run + " have gradients of their own";
    case Cause::kReductionFactor:
      return "the reduction of " + run +
             " takes a sum for a mean, a mean for a sum, or is done "
             "twice";
    case Cause::kReduction:
      return "the reduction, or what lies between it and the gradient before it";
    case Cause::kClipping:
      return "clipping: a norm over a part of the gradients, or another divisor";
    case Cause::kOptimizerState:
      return "the optimizer's state: its betas, blocks of quantized state, or a step that is left "
             "out or done twice";
    case Cause::kWeightDecay:
      return "weight decay: the updates differ along the weight";
    case Cause::kUpdate:
      return "the optimizer's update: its learning rate or epsilon, or a step that is done twice";
    case Cause::kNotFinite:
      return run + " has NaN or infinity";
  }
  return "";
}

namespace {

std::string where_text(const FirstDifference& difference) {
  std::vector<std::string> parts;
  const bool is_of_rows = !difference.rows.empty() || difference.of == Quantity::kActivation ||
                          difference.of == Quantity::kActivationGradient;
  if (difference.compared > 0) {
    parts.push_back(fmt::format("{} of {} {}", difference.differing, difference.compared,
                                is_of_rows ? "rows" : "tensors"));
  }
  if (!difference.rows.empty()) parts.push_back("rows " + joined_names(difference.rows));
  if (!difference.ranks.empty()) {
    parts.push_back(fmt::format("ranks {}{}", joined_names(difference.ranks),
                                difference.at_fault.empty() ? "" : " of " + difference.at_fault));
  }
  if (difference.from_position) {
    parts.push_back(fmt::format("from {:.0f} % of each row on", 100 * *difference.from_position));
  }
  return joined_texts(parts, "; ");
}

std::string size_text(const FirstDifference& difference) {
  if (!std::isfinite(difference.relative)) return "one of both is not finite, or is zero";
  std::string text = fmt::format("{:.1e} of it, {} units of rounding", difference.relative,
                                 three_digits(difference.in_rounding));
  if (difference.ratio)
    text += fmt::format("; the other is {} times the one", three_digits(*difference.ratio));
  if (difference.cosine && std::isfinite(*difference.cosine))
    text += fmt::format("; cosine {:.4f}", *difference.cosine);
  return text;
}

}  // namespace

std::string difference_text(const FirstDifference& difference, const std::string& one,
                            const std::string& other) {
  std::string text = fmt::format("{} and {} differ from step {} on:\n  first  {}\n", one, other,
                                 difference.step, what_text(difference));
  if (difference.relative > 0) text += "  size   " + size_text(difference) + '\n';
  if (const std::string where = where_text(difference); !where.empty()) {
    text += "  where  " + where + '\n';
  }
  return text + "  cause  " + cause_text(difference) + '\n';
}

}  // namespace fsdp
