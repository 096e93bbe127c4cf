#pragma once

#include <cstdint>
#include <string>

#include "base/text/fields.h"
#include "contract/families/model_config.h"
#include "contract/spec/run_spec.h"

namespace fsdp {

// The settings and inputs that decide the losses after a checkpoint, together with its tensors.
// Runs with equal bases go on from it with equal losses.
struct Basis {
  TextList keys;               // the keys that decide losses, "lora.alpha=32"
  std::string data;            // digest of the files of the training set and the tokenizer
  std::string frozen_weights;  // digest of their values; empty: not known, or there are none

  bool operator==(const Basis&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("keys", self.keys);
    visit("data", self.data);
    visit("frozen_weights", self.frozen_weights);
  }
};

// Returns the basis of a run of `steps` steps that trains a model with `config`, without digests.
// Leaves out the length of the run, and keys that count for nothing in it. Leaves out paths,
// because digests stand for their files.
Basis basis_of(const RunSpec& spec, const ModelConfig& config, int64_t steps);

// Returns the first difference between the bases of a checkpoint and of a run that resumes, such as
// "lora.alpha 16; the run's is 32". Empty if there is none. Digests that are not known do not
// differ.
std::string difference(const Basis& was, const Basis& now);

}  // namespace fsdp
