#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

// The names of everything in a run's folder, <results>/runs/<experiment>/<point>-<hash8>/.
class RunPaths {
 public:
  explicit RunPaths(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path spec() const { return folder_ / "run.yaml"; }
  // The caller that may begin attempts, if the run was ever submitted to Slurm.
  std::filesystem::path claim() const { return folder_ / "claim"; }
  std::filesystem::path attempt(int number) const {
    return folder_ / ("attempt-" + std::to_string(number));
  }
  std::filesystem::path events(int number, int rank) const {
    return attempt(number) / ("events.rank" + std::to_string(rank) + ".jsonl");
  }
  std::filesystem::path log(int number, int rank) const {
    return attempt(number) / ("rank" + std::to_string(rank) + ".log");
  }
  // The rank's work in the steps of train.trace_steps: a RankTrace in JSON, as gzip.
  std::filesystem::path trace(int number, int rank) const {
    return attempt(number) / ("trace.rank" + std::to_string(rank) + ".json.gz");
  }
  // The ranks' files of the steps in train.fingerprint_steps (contract/record/fingerprint.h).
  std::filesystem::path fingerprints(int number) const { return attempt(number) / "fingerprints"; }
  // The process that starts the ranks writes this record before it starts them. It is missing if
  // the user started the ranks by hand.
  std::filesystem::path launch_record(int number) const { return attempt(number) / "launch.json"; }
  std::filesystem::path end_record(int number) const { return attempt(number) / "end.json"; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  std::filesystem::path checkpoint(int64_t step) const {
    return checkpoints() / ("step-" + std::to_string(step));
  }

 private:
  std::filesystem::path folder_;
};

// A rank's file in a folder of fingerprints.
inline std::string fingerprint_file_name(int64_t step, int64_t rank) {
  return "step-" + std::to_string(step) + ".rank" + std::to_string(rank) + ".jsonl";
}

// The folder of results that contains a run's folder, <results>/runs/<experiment>/<run>/.
inline std::filesystem::path results_of_run(const std::filesystem::path& run_folder) {
  return (run_folder / "../../..").lexically_normal();
}

// The folder of tokenized data. `folder` is the results folder, or the run's folder if the trainer
// was started by hand.
inline std::filesystem::path prepared_folder(const std::filesystem::path& folder) {
  return folder / "prepared";
}

// Returns the numbers of the attempts that have a folder, in order. Some of them may be in no
// database: they were started by hand, or the database was deleted.
std::vector<int> attempts_with_folder(const RunPaths& paths);
// Returns the number after the highest of these attempts, or 1.
int first_free_attempt(const RunPaths& paths);

// A checkpoint's folder is complete if it has this file.
inline constexpr const char* kTrainerStateName = "trainer.json";
inline constexpr size_t kLargestTrainerStateBytes = 100'000'000;  // it lists the files of all ranks

// The merged model's folder inside a checkpoint. In the checkpoint's own folder, transformers would
// find adapter_config.json and open the adapters. A resumed run does not read it.
inline constexpr const char* kMergedFolder = "merged";
inline bool is_of_merged_model(std::string_view name_in_checkpoint) {
  return name_in_checkpoint.starts_with(kMergedFolder + std::string("/"));
}

// A folder in <run>/checkpoints/, by its name.
struct CheckpointFolder {
  enum class State {
    kComplete,  // step-<N>
    kReplaced,  // step-<N>.replaced: complete; stands in for step-<N> while that is missing
    kPartial,   // step-<N>.partial: being written, or being removed
  };
  int64_t step = 0;
  State state = State::kComplete;
  std::filesystem::path folder;
};

// Returns the folders of checkpoints, the highest step first. Folders of one step are in the order
// of State.
std::vector<CheckpointFolder> list_checkpoint_folders(const RunPaths& paths);

// Returns the step of the newest checkpoint that is complete by its name. nullopt: there is none.
std::optional<int64_t> newest_saved_step(const RunPaths& paths);

// The folder of a step's checkpoint in this state.
std::filesystem::path checkpoint_folder(const RunPaths& paths, int64_t step,
                                        CheckpointFolder::State state);

// Converts a name to a file name. Characters other than letters, digits, '.', '_' and '-' become
// '-'. Runs of '-' are joined. A leading '.' or '-' and a trailing '-' are removed. An empty result
// becomes "run". Different names may give the same file name.
std::string safe_file_name(std::string_view name);

// Returns a file name that differs for every `name`, of at most 129 bytes. A short safe name stays
// as it is. Any other becomes the beginning of its safe form, '~', and 8 digits of the name's
// digest. No safe name contains '~'.
std::string file_name_of(std::string_view name);

}  // namespace fsdp
