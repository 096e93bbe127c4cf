#include "trainer/train/resume.h"

#include "contract/inputs/inputs.h"
#include "contract/record/digest.h"
#include "contract/record/start_up.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/text/config_error.h"
#include "contract/tokenizers/tokenizer.h"
#include "trainer/checkpoint/checkpoint_folders.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// What the ranks together find wrong with a checkpoint; empty: nothing. The same on every rank.
std::string find_damage(const path& folder, ProcessGroup& world) {
  std::string damage;
  try {
    check_contents(folder, read_trainer_state(folder), world.rank(), world.size());
  } catch (const ConfigError& error) {
    damage = error.what();
  }
  const auto key_of = [&](int rank) {
    return "damage/" + folder.filename().string() + "/" + std::to_string(rank);
  };
  world.leave(key_of(world.rank()), damage);
  pause_start_up();
  for (int rank = 0; world.rank() == 0 && rank < world.size(); ++rank) {
    const std::string found = world.take(key_of(rank));
    if (damage.empty()) damage = found;
  }
  return world.agree("damage", damage);
}

// Rank 0, which hosts what the ranks meet through, does not end before all know why.
[[noreturn]] void refuse_together(const std::string& place, const std::string& problem,
                                  ProcessGroup& world) {
  world.barrier();
  throw ConfigError(place, "resume", problem);
}

Resumed newest_whole_checkpoint(const RunPaths& paths, ProcessGroup& world) {
  // Rank 0 decides: another rank may see a shared file system later.
  std::vector<path> folders;
  if (world.rank() == 0) folders = checkpoints_newest_first(paths);
  std::string damages;
  for (size_t i = 0;; ++i) {
    const path folder = world.agree("resume", i < folders.size() ? folders[i].string() : "");
    if (folder.empty() && damages.empty()) return {};
    if (folder.empty()) {
      refuse_together(paths.checkpoints().string(),
                      "auto finds no checkpoint that is as it was written: " + damages +
                          "; put one back, or move the folder away to begin anew",
                      world);
    }
    const std::string damage = find_damage(folder, world);
    if (damage.empty()) {
      Resumed resumed{.reader = std::make_unique<CheckpointReader>(folder), .warning = {}};
      if (!damages.empty()) {
        resumed.warning = "the run goes on from " + folder.filename().string() +
                          ", as what is newer is damaged: " + damages;
      }
      return resumed;
    }
    damages += (damages.empty() ? "" : "; ") + damage;
  }
}

Resumed checkpoint_at(const path& folder, ProcessGroup& world) {
  if (const std::string damage = find_damage(folder, world); !damage.empty()) {
    refuse_together("", damage, world);
  }
  return {.reader = std::make_unique<CheckpointReader>(folder), .warning = {}};
}

// The keys that decide which sequences are read, as text.
std::vector<std::pair<std::string, std::string>> keys_of(const DataOrder& order) {
  RunSpec spec;
  spec.data = order.data;
  spec.evaluation.split_seed = order.split_seed;
  return keys_and_values(spec);
}

// The first difference between what was read and what would be, "data.shuffle true; the run's is
// false"; empty: none.
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
      for (const path& file : tokenizer_files(tokenizer_of(spec))) {
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
  // What an earlier writer left unfinished goes before any rank looks.
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
