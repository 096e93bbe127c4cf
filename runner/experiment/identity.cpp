// Hashes what identifies a run: keys that differ from their defaults, and contents of inputs.
#include "base/files/digest.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/inputs.h"
#include "runner/experiment/experiment.h"

namespace fsdp {
namespace {

std::string digests_of_inputs(const RunSpec& spec, const FileDigest& digest) {
  std::string digests;
  for (const auto& [key, file] : input_files(spec)) digests += digest(file) + '\n';
  return digests;
}

}  // namespace

std::string data_digest(const RunSpec& spec, const FileDigest& digest) {
  return text_digest(digests_of_inputs(spec, digest));
}

std::string loss_digest(const RunSpec& spec, const FileDigest& digest) {
  RunSpec deciding =
      keys_of_losses(spec, spec.model.source.empty() ? spec.model.config
                                                     : read_hugging_face_config(spec.model.source));
  const std::string keys = differences_from_default(deciding);
  deciding.resume = spec.resume;  // the checkpoint's contents count, its path does not
  return text_digest(keys + digests_of_inputs(deciding, digest));
}

std::string identity_keys(const RunSpec& spec) {
  RunSpec identifying = spec;
  reset_effects(identifying, Effect::kHowOnly);
  return differences_from_default(identifying);
}

std::string run_hash(const RunSpec& spec, const FileDigest& digest) {
  return text_digest(identity_keys(spec) + digests_of_inputs(spec, digest));
}

}  // namespace fsdp
