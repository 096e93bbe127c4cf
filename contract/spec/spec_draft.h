#pragma once

#include <vector>

#include "contract/spec/overrides.h"
#include "contract/spec/run_spec.h"

namespace fsdp {

// A specification in the making: the values that the layers applied so far give, and expressions
// that give others. It refers to the layers' expressions.
class SpecDraft {
 public:
  // What the layer gives takes the place of what earlier ones gave, an expression's too.
  void apply(const Overrides& layer);

  // The specification with its expressions left out: those keys have their defaults.
  const RunSpec& plain() const { return spec_; }

  // The specification, not yet resolved. Throws ConfigError with the place of an expression that
  // has no result, refers to a key that has one, or gives what its key may not hold.
  RunSpec evaluated() const;

 private:
  RunSpec spec_;
  std::vector<const DerivedValue*> derived_;
};

}  // namespace fsdp
