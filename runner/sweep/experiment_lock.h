#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace fsdp {

// Lets one runner at a time work on an experiment of a results folder. The kernel releases the lock
// when the process ends, however it ends.
class ExperimentLock {
 public:
  // Waits for a process that holds the lock for a moment, and says so. Throws std::runtime_error
  // with the other process's name if that one holds it for longer. Creates the results folder.
  // Throws std::system_error if the folder cannot be written.
  ExperimentLock(const std::filesystem::path& results, const std::string& experiment,
                 const std::function<void(const std::string&)>& say);
  // Returns null if another process has the lock, and names it in `owner` if it is known.
  static std::unique_ptr<ExperimentLock> if_free(const std::filesystem::path& results,
                                                 const std::string& experiment, std::string& owner);
  // Takes the lock to ask Slurm about the experiment's jobs once. A starting runner waits for it.
  // Returns null if another process has the lock.
  static std::unique_ptr<ExperimentLock> for_a_moment(const std::filesystem::path& results,
                                                      const std::string& experiment);
  ~ExperimentLock();
  ExperimentLock(const ExperimentLock&) = delete;
  ExperimentLock& operator=(const ExperimentLock&) = delete;

 private:
  explicit ExperimentLock(int descriptor) : descriptor_(descriptor) {}
  static std::unique_ptr<ExperimentLock> held(int descriptor);  // null if it is negative

  int descriptor_;
};

}  // namespace fsdp
