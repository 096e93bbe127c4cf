#include <vector>

#include "base/files/digest.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/inputs.h"
#include "runner/experiment/experiment.h"

namespace fsdp {
namespace {

// Resets keys that decide no more than `most` to their defaults.
template <Fields Section>
void forget(Section& section, Effect most) {
  const Section defaults{};
  std::vector<const void*> values;
  Section::visit_fields(
      defaults, [&](const char*, const auto& member, auto&&...) { values.push_back(&member); });
  size_t number = 0;
  Section::visit_fields(
      section, [&]<typename T>(const char*, T& member, const char*, const Range&, auto... effect) {
        const T& without = *static_cast<const T*>(values[number++]);
        if constexpr (sizeof...(effect) > 0) {
          if (((effect <= most) && ...)) member = without;
        } else if constexpr (Fields<T>) {
          forget(member, most);
        }
      });
}

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
  RunSpec deciding = spec;
  deciding.batch.total = total_batch(spec);  // however it is given
  forget(deciding, Effect::kNotLosses);
  const std::string keys = differences_from_default(deciding);
  deciding.resume = spec.resume;  // its contents, not its place
  return text_digest(keys + digests_of_inputs(deciding, digest));
}

std::string identity_keys(const RunSpec& spec) {
  RunSpec identifying = spec;
  forget(identifying, Effect::kHowOnly);
  return differences_from_default(identifying);
}

std::string run_hash(const RunSpec& spec, const FileDigest& digest) {
  return text_digest(identity_keys(spec) + digests_of_inputs(spec, digest));
}

}  // namespace fsdp
