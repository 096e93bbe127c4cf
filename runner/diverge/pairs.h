#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/diverge/step_fingerprints.h"

// The same quantity of two runs, and how far both are apart. Pure.
namespace fsdp {

struct Pair {
  const Computed* one;
  const Computed* other;

  double norm() const;      // the larger one
  double distance() const;  // infinite if only one of both is finite
  double size() const;      // the distance, relative to the norm
};
using Pairs = std::vector<Pair>;

// Returns distance / scale: 0 if nothing differs, infinite if the scale is 0.
double relative(double distance, double scale);

double cosine(const Sums& one, const Sums& other);

// Returns the number that `one` must be multiplied by to be `other`, if this explains nearly all of
// their difference.
std::optional<double> ratio_of(const Sums& one, const Sums& other);

// Returns the pairs of a quantity of one step and a quantity of another, of the same tensors or
// rows, in the order of `other_step`.
Pairs pairs_between(const StepFingerprints& one_step, Quantity one,
                    const StepFingerprints& other_step, Quantity other);

// The norms that tensors are compared with. A norm is the tensor's own, but not below a share of
// the norms in its module. Some gradients cancel out, and only rounding is left: that of a key's
// bias, for instance. An adapter's B begins with updates alone.
class ModuleScales {
 public:
  ModuleScales(const Pairs& all, double least_share);
  double of(const Pair& pair) const;  // one of all
  double relative_size(const Pair& pair) const { return relative(pair.distance(), of(pair)); }

 private:
  struct Module {
    double square_sum = 0;
    double numel = 0;
  };
  double least_share_;
  std::map<std::string, Module> modules_;
};

}  // namespace fsdp
