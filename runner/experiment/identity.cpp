#include "contract/inputs/inputs.h"
#include "contract/record/digest.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/experiment/experiment.h"

namespace fsdp {
namespace {

// What may differ between two attempts at one run: how it is carried out, not what it computes.
RunSpec without_execution(RunSpec spec) {
  spec.resume = {};
  spec.communication = {};
  spec.device_samples = {};
  spec.wandb = {};
  spec.slurm = {};
  return spec;
}

// What decides the losses and, within the precision, nothing that does not.
RunSpec without_what_losses_do_not_depend_on(RunSpec spec) {
  spec = without_execution(std::move(spec));
  const int64_t total = total_batch(spec);
  const double held_out = spec.evaluation.fraction;
  spec.batch = {};
  spec.batch.total = total;
  spec.evaluation = {};
  spec.evaluation.fraction = held_out;  // it is not trained on
  spec.strategy = {};
  spec.activation_checkpointing = {};
  spec.checkpoint = {};
  spec.optimizer.in_backward = false;
  spec.train.warmup_steps_excluded = TrainSpec().warmup_steps_excluded;
  spec.device = {};
  spec.threads_per_rank = {};
  spec.memory_limit_gib = {};
  return spec;
}

std::string digests_of_inputs(const RunSpec& spec, const FileDigest& digest) {
  std::string digests;
  for (const std::filesystem::path& file : input_files(spec)) digests += digest(file) + '\n';
  return digests;
}

}  // namespace

std::string data_digest(const RunSpec& spec, const FileDigest& digest) {
  return text_digest(digests_of_inputs(spec, digest));
}

std::string loss_digest(const RunSpec& spec, const FileDigest& digest) {
  RunSpec deciding = without_what_losses_do_not_depend_on(spec);
  const std::string keys = differences_from_default(deciding);
  deciding.resume = spec.resume;  // its contents, not its place
  return text_digest(keys + digests_of_inputs(deciding, digest));
}

std::string identity_keys(const RunSpec& spec) {
  return differences_from_default(without_execution(spec));
}

std::string run_hash(const RunSpec& spec, const FileDigest& digest) {
  return text_digest(identity_keys(spec) + digests_of_inputs(spec, digest));
}

}  // namespace fsdp
