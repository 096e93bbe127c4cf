#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fsdp {

// The names of everything in a run's folder, <results>/runs/<experiment>/<point>-<hash8>/.
class RunPaths {
 public:
  explicit RunPaths(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path spec() const { return folder_ / "run.yaml"; }
  std::filesystem::path attempt(int number) const {
    return folder_ / ("attempt-" + std::to_string(number));
  }
  std::filesystem::path events(int number, int rank) const {
    return attempt(number) / ("events.rank" + std::to_string(rank) + ".jsonl");
  }
  std::filesystem::path log(int number, int rank) const {
    return attempt(number) / ("rank" + std::to_string(rank) + ".log");
  }
  // Of an attempt in a job of Slurm, by whoever starts its ranks there.
  std::filesystem::path launch_record(int number) const { return attempt(number) / "launch.json"; }
  std::filesystem::path end_record(int number) const { return attempt(number) / "end.json"; }
  std::filesystem::path checkpoints() const { return folder_ / "checkpoints"; }
  std::filesystem::path checkpoint(int64_t step) const {
    return checkpoints() / ("step-" + std::to_string(step));
  }

 private:
  std::filesystem::path folder_;
};

// The results that a run's folder is in, <results>/runs/<experiment>/<run>/.
inline std::filesystem::path results_of_run(const std::filesystem::path& run_folder) {
  return (run_folder / "../../..").lexically_normal();
}

// Where data is kept as tokens, in a folder of results or, for a trainer that is started by hand,
// in the run's own.
inline std::filesystem::path prepared_folder(const std::filesystem::path& folder) {
  return folder / "prepared";
}

// The first number above those of all attempts that have a folder. Attempts may be there that no
// database knows: started by hand, or before it was deleted.
int first_free_attempt(const RunPaths& paths);

// The file that makes a checkpoint's folder complete.
inline constexpr const char* kTrainerStateName = "trainer.json";
inline constexpr size_t kLargestTrainerStateBytes = 100'000'000;  // it lists the files of all ranks

// A name for a file: everything but letters, digits, '.', '_' and '-' becomes '-', runs of '-' are
// joined, and a leading '.' or '-' goes; never empty. Names that differ may come to the same.
std::string safe_file_name(std::string_view name);

// A file's name for `name` that no other name has: a short safe name is its own; of any other it is
// the beginning of the safe form, '~', which no safe name has, and 8 digits of the name's digest.
// At most 129 bytes long.
std::string file_name_of(std::string_view name);

}  // namespace fsdp
