#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace fsdp {

// One runner at a time works on an experiment of a results folder. The kernel lets go of the lock
// when the process ends, however it ends.
class ExperimentLock {
 public:
  // Waits, and says so, for a process that has it for a moment. Throws std::runtime_error that
  // names the other process when that has it for longer, std::system_error when the results folder,
  // which is created, cannot be written.
  ExperimentLock(const std::filesystem::path& results, const std::string& experiment,
                 const std::function<void(const std::string&)>& say);
  // Null when another process has it; `owner` is told which, where it is known.
  static std::unique_ptr<ExperimentLock> if_free(const std::filesystem::path& results,
                                                 const std::string& experiment, std::string& owner);
  // The lock, to ask Slurm about the experiment's jobs once: a runner that starts waits for it.
  // Null when another process has it.
  static std::unique_ptr<ExperimentLock> for_a_moment(const std::filesystem::path& results,
                                                      const std::string& experiment);
  ~ExperimentLock();
  ExperimentLock(const ExperimentLock&) = delete;
  ExperimentLock& operator=(const ExperimentLock&) = delete;

 private:
  explicit ExperimentLock(int descriptor) : descriptor_(descriptor) {}
  static std::unique_ptr<ExperimentLock> held(int descriptor);  // null where it is below 0

  int descriptor_;
};

}  // namespace fsdp
