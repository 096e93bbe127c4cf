// Joins what two runs have computed, by name, and measures how far both are apart.
#include "runner/diverge/pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fsdp {
namespace {

// The module that a tensor belongs to: "model.layers.3" of "model.layers.3.mlp.up_proj.weight".
std::string module_of(const std::string& tensor) {
  const size_t digits = tensor.find_first_of("0123456789");
  return digits == tensor.npos ? tensor : tensor.substr(0, tensor.find('.', digits));
}

}  // namespace

double Pair::norm() const { return std::max(one->sums.norm(), other->sums.norm()); }
double Pair::distance() const { return fsdp::distance(one->sums, other->sums); }
double Pair::size() const { return relative(distance(), norm()); }

double relative(double distance, double scale) {
  if (distance == 0) return 0;
  return scale > 0 ? distance / scale : std::numeric_limits<double>::infinity();
}

double cosine(const Sums& one, const Sums& other) {
  return inner_product(one, other) / (one.projected_norm() * other.projected_norm());
}

std::optional<double> ratio_of(const Sums& one, const Sums& other) {
  constexpr double kLeftOver = 0.05;
  const double square = inner_product(one, one);
  if (!(square > 0)) return std::nullopt;
  const double ratio = inner_product(one, other) / square;
  Sums rest = other;
  for (size_t i = 0; i < kProjections; ++i) rest.projections[i] -= ratio * one.projections[i];
  const bool is_explained = rest.projected_norm() <= kLeftOver * distance(one, other);
  return is_explained ? std::optional(ratio) : std::nullopt;
}

Pairs pairs_between(const StepFingerprints& one_step, Quantity one,
                    const StepFingerprints& other_step, Quantity other) {
  Pairs pairs;
  for (const Computed& each : other_step.computed) {
    if (each.of != other) continue;
    const Computed* found = one_step.find(one, each.name, each.state, each.row);
    if (found != nullptr) pairs.push_back({found, &each});
  }
  return pairs;
}

ModuleScales::ModuleScales(const Pairs& all, double least_share) : least_share_(least_share) {
  for (const Pair& each : all) {
    Module& module = modules_[module_of(each.one->name)];
    module.square_sum += each.one->sums.square_sum;
    module.numel += static_cast<double>(each.one->sums.numel);
  }
}

double ModuleScales::of(const Pair& pair) const {
  const Module& module = modules_.at(module_of(pair.one->name));
  const double share = static_cast<double>(pair.one->sums.numel) / std::max(module.numel, 1.0);
  return std::max(pair.norm(), least_share_ * std::sqrt(module.square_sum * share));
}

}  // namespace fsdp
