#pragma once

#include <vector>

#include "contract/spec/overrides.h"
#include "contract/spec/run_spec.h"

namespace fsdp {

// A specification in the making: the values of the layers applied so far, and expressions for
// others. It refers to the layers' expressions.
class SpecDraft {
 public:
  // Replaces values and expressions of earlier layers by those that the layer gives. Throws
  // ConfigError if it gives model.config beside an earlier model.source.
  void apply(const Overrides& layer);

  // The specification without its expressions. Their keys have their defaults.
  const RunSpec& plain() const { return spec_; }

  // Returns the specification, not yet resolved. Throws ConfigError with the place of an expression
  // that has no result, refers to a key with an expression, or gives a value that its key may not
  // hold.
  RunSpec evaluated() const;

 private:
  RunSpec spec_;
  std::vector<const DerivedValue*> derived_;
};

}  // namespace fsdp
