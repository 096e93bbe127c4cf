// Finds the checkpoint to resume from. All ranks choose the same one, or all refuse.
#include "trainer/train/resume.h"

#include <algorithm>
#include <set>

#include "base/files/digest.h"
#include "base/files/file_digest.h"
#include "base/system/start_up.h"
#include "base/text/config_error.h"
#include "contract/families/adapters.h"
#include "formats/data/prepare.h"
#include "formats/data/prepared_file.h"
#include "formats/inputs/inputs.h"
#include "trainer/checkpoint/checkpoint_folders.h"
#include "trainer/comm/verdict.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr const char* kWhole = "whole: ";

// Returns the defect that this rank finds in a checkpoint. If it is whole, returns kWhole and the
// digest of its trainer.json, which holds the checksums of all files.
std::string find_own_damage(const path& folder, const ProcessGroup& world) {
  try {
    check_contents(folder, read_trainer_state(folder), world.rank(), world.size());
    return kWhole + file_digest(folder / kTrainerStateName);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

// Returns the defect that the ranks together find in a checkpoint; empty if there is none. The
// result is the same on every rank, and each may end at once if there is a defect. `subject` is the
// same on all ranks; the path `folder` may differ.
std::string find_damage(const path& folder, const std::string& subject, ProcessGroup& world) {
  const std::string seen = find_own_damage(folder, world);
  pause_start_up();
  return verdict_on(subject, seen, world, [&](const std::vector<std::string>& all) -> std::string {
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (!all[rank].starts_with(kWhole)) return all[rank];
      if (all[rank] == all[0]) continue;
      return folder.string() + ": is another checkpoint on rank " + std::to_string(rank) +
             " than on rank 0; give both the same folder";
    }
    return "";
  });
}

Resumed checkpoint_at(const path& folder, ProcessGroup& world) {
  if (const std::string damage = find_damage(folder, "damage", world); !damage.empty()) {
    throw ConfigError("", "resume", damage);
  }
  return {.reader = std::make_unique<CheckpointReader>(folder), .warning = {}};
}

std::set<std::string> trained_tensors(const RunSpec& spec, const ModelConfig& config) {
  std::set<std::string> names;
  for_each_module(config, spec.method, spec.lora, [&](const ModuleSpec& module) {
    for (const ParameterSpec& parameter : module.parameters) {
      if (!parameter.is_trained) continue;
      for (const NamedTensor& tensor : parameter.tensors) names.insert(tensor.name);
    }
  });
  return names;
}

[[noreturn]] void refuse(const CheckpointReader& reader, const std::string& problem) {
  throw ConfigError(reader.folder().string(), "resume", problem);
}

void check_fits(const RunSpec& spec, const ModelConfig& config, const CheckpointReader& reader) {
  const TrainerState& state = reader.state();
  if (state.optimizer != spec.optimizer.kind) {
    refuse(reader, "was written with optimizer.kind " + std::string(name_of(state.optimizer)) +
                       "; the run's is " + std::string(name_of(spec.optimizer.kind)));
  }
  if (state.step > kMostSteps || state.sequences != state.step * total_batch(spec)) {
    refuse(reader, "has read " + std::to_string(state.sequences) + " sequences in " +
                       std::to_string(state.step) + " steps; the run's batch.total is " +
                       std::to_string(total_batch(spec)) + "; resume with the same total");
  }
  if (state.gradient_scaler.has_value() != (spec.precision.kind == PrecisionKind::kFp16Mixed)) {
    refuse(reader, "was written with another precision; both or neither must be fp16_mixed");
  }
  reader.require_only(trained_tensors(spec, config));
}

}  // namespace

Resumed newest_whole_checkpoint(const RunPaths& paths, ProcessGroup& world) {
  // Rank 0 decides, because another rank may see changes of a shared file system later.
  std::vector<path> folders;
  if (world.rank() == 0) folders = checkpoints_newest_first(paths);
  std::string damages;
  for (size_t i = 0;; ++i) {
    const path folder = world.agree("resume", i < folders.size() ? folders[i].string() : "");
    if (folder.empty() && damages.empty()) return {};
    if (folder.empty()) {
      world.barrier();  // rank 0 hosts the store, and must not end before all know the result
      throw ConfigError(paths.checkpoints().string(), "resume",
                        "auto finds no undamaged checkpoint: " + damages +
                            "; put one back, or begin anew with --rerun");
    }
    const std::string damage =
        find_damage(folder, "damage of " + folder.filename().string(), world);
    if (damage.empty()) {
      Resumed resumed{.reader = std::make_unique<CheckpointReader>(folder), .warning = {}};
      if (!damages.empty()) {
        resumed.warning = "the run resumes from " + folder.filename().string() +
                          ", because newer checkpoints are damaged: " + damages;
      }
      return resumed;
    }
    damages += (damages.empty() ? "" : "; ") + damage;
  }
}

Basis begin_basis(const RunSpec& spec, const ModelConfig& config, at::Device device, int64_t steps,
                  SharedDigests& digests) {
  RunSpec used = spec;
  used.device = device.is_cpu() ? DeviceKind::kCpu : DeviceKind::kCuda;
  Basis basis = basis_of(used, config, steps);
  if (!uses_checkpoints(spec)) return basis;
  basis.data = digests.digest_of(training_file(spec.data));
  if (needs_tokenizer(spec.data.kind)) {
    basis.data += std::to_string(kPreparedVersion);  // another version makes other tokens
    for (const path& file : tokenizer_files(data_source(spec, training_file(spec.data)))) {
      basis.data = text_digest(basis.data + digests.digest_of(file));
    }
  }
  return basis;
}

Resumed open_resumed_checkpoint(const RunSpec& spec, const RunPaths& paths,
                                const ModelConfig& config, const Basis& basis,
                                ProcessGroup& world) {
  // Removes what an earlier writer left unfinished, before any rank lists the checkpoints.
  if (world.rank() == 0 && uses_checkpoints(spec)) {
    remove_partial_checkpoints(paths);
  }
  if (!reads_checkpoint(spec)) return {};
  Resumed resumed = spec.resume.is_auto ? newest_whole_checkpoint(paths, world)
                                        : checkpoint_at(spec.resume.path, world);
  if (!resumed.reader) return resumed;
  require_basis(*resumed.reader, basis);
  check_fits(spec, config, *resumed.reader);
  if (!resumed.reader->state().basis) {
    resumed.warning += std::string(resumed.warning.empty() ? "" : "; ") +
                       "the checkpoint is of an older version, which did not record on which "
                       "weights, data and keys it is based: nothing compares them with the run's";
  }
  return resumed;
}

void require_basis(const CheckpointReader& reader, const Basis& basis) {
  const TrainerState& state = reader.state();
  if (!state.basis) return;
  const std::string found = difference(*state.basis, basis);
  if (found.empty()) return;
  std::string problem =
      "was written with " + found + "; resume with the same, or begin anew with --rerun";
  if (reader.has_full_weights()) {
    const TextList& keys = state.basis->keys;
    const bool has_adapters = std::ranges::find(keys, "method=full") == keys.end();
    problem += ", or train these weights anew: leave resume out, and give this folder as ";
    problem += has_adapters ? "lora.adapter" : "model.source";
  }
  refuse(reader, problem);
}

}  // namespace fsdp
