#include "trainer/train/resume.h"

#include "base/files/digest.h"
#include "base/files/file_digest.h"
#include "base/system/start_up.h"
#include "base/text/config_error.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/data/prepare.h"
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
                            "; put one back, or move the folder away to begin anew");
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

Resumed checkpoint_at(const path& folder, ProcessGroup& world) {
  if (const std::string damage = find_damage(folder, "damage", world); !damage.empty()) {
    throw ConfigError("", "resume", damage);
  }
  return {.reader = std::make_unique<CheckpointReader>(folder), .warning = {}};
}

// Returns the keys that decide which sequences are read, and their values as text.
std::vector<std::pair<std::string, std::string>> keys_of(const DataOrder& order) {
  RunSpec spec;
  spec.data = order.data;
  spec.evaluation.split_seed = order.split_seed;
  return keys_and_values(spec);
}

// Returns the first difference between two orders, such as "data.shuffle true; the run's is false";
// empty if there is none.
std::string difference(const DataOrder& was, const DataOrder& now) {
  const auto differs = [](const std::string& key, const std::string& before,
                          const std::string& after) {
    return key + ' ' + before + "; the run's is " + after;
  };
  const auto before = keys_of(was);
  const auto after = keys_of(now);
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    return differs(before[i].first, before[i].second, after[i].second);
  }
  if (was.digest != now.digest) {
    return differs("training data of other contents (data.train, data.tokenizer), digest",
                   was.digest, now.digest);
  }
  if (was.rows != now.rows) {
    return differs("evaluation.fraction such that the rows trained on are",
                   std::to_string(was.rows), std::to_string(now.rows));
  }
  if (was.data.shuffle && was.seed != now.seed) {
    return differs("train.seed", std::to_string(was.seed), std::to_string(now.seed));
  }
  return "";
}

void check_fits(const RunSpec& spec, const path& folder, const TrainerState& state,
                const DataOrder& data) {
  const auto refuse = [&](const std::string& problem) {
    throw ConfigError(folder.string(), "resume", problem);
  };
  if (state.optimizer != spec.optimizer.kind) {
    refuse("was written with optimizer.kind " + std::string(name_of(state.optimizer)) +
           "; the run's is " + std::string(name_of(spec.optimizer.kind)));
  }
  if (state.step > kMostSteps || state.sequences != state.step * total_batch(spec)) {
    refuse("has read " + std::to_string(state.sequences) + " sequences in " +
           std::to_string(state.step) + " steps; the run's batch.total is " +
           std::to_string(total_batch(spec)) + "; resume with the same total");
  }
  if (const std::string found = state.data ? difference(*state.data, data) : ""; !found.empty()) {
    const bool is_model = state.state_dict == StateDict::kFull;
    refuse("was written with " + found +
           ", so that it would read other sequences than were left; " + "resume with the same" +
           (is_model ? ", or train these weights anew, with this folder as model.source" : ""));
  }
  if (state.gradient_scaler.has_value() != (spec.precision.kind == PrecisionKind::kFp16Mixed)) {
    refuse("was written with another precision; both or neither must be fp16_mixed");
  }
}

}  // namespace

DataOrder data_order(const RunSpec& spec, int64_t rows, SharedDigests& digests) {
  std::string digest;
  if (wants_checkpoints(spec) || spec.resume.is_given()) {
    digest = digests.digest_of(training_file(spec.data));
    if (needs_tokenizer(spec.data.kind)) {
      for (const path& file : tokenizer_files(data_source(spec, training_file(spec.data)))) {
        digest = text_digest(digest + digests.digest_of(file));
      }
    }
  }
  DataOrder order{.data = spec.data,
                  .digest = digest,
                  .rows = rows,
                  .split_seed = spec.evaluation.split_seed,
                  .seed = spec.train.seed};
  order.data.train.clear();
  order.data.tokenizer.clear();
  return order;
}

Resumed open_resumed_checkpoint(const RunSpec& spec, const RunPaths& paths, const DataOrder& data,
                                ProcessGroup& world) {
  // Removes what an earlier writer left unfinished, before any rank lists the checkpoints.
  if (world.rank() == 0 && (wants_checkpoints(spec) || spec.resume.is_given())) {
    remove_partial_checkpoints(paths);
  }
  if (!spec.resume.is_given()) return {};
  Resumed resumed = spec.resume.is_auto ? newest_whole_checkpoint(paths, world)
                                        : checkpoint_at(spec.resume.path, world);
  if (resumed.reader) check_fits(spec, resumed.reader->folder(), resumed.reader->state(), data);
  return resumed;
}

}  // namespace fsdp
