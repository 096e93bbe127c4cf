#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fsdp {

// Device claims show which runners of this host measure on which devices.

// A GPU's UUID, or a core: "n1:cpu3".
using DeviceNames = std::set<std::string>;

// The cores of this host that this process may use. `host` is the host's name, because several
// hosts may share the folder.
DeviceNames own_cores(const std::string& host);

// A claim on devices that other runners can see. It is a locked file in a folder that the host's
// users share. The kernel releases the lock when the process ends, however it ends.
class DeviceClaim {
 public:
  // `who` names this runner for others. `holders` is set to the names of others that hold some of
  // the devices. Returns nullopt if there are any and `share` is false. Throws std::system_error if
  // fsdp-run.devices in the system's temporary folder cannot be used.
  static std::optional<DeviceClaim> take(const DeviceNames& devices, const std::string& who,
                                         bool share, std::string& holders);
  DeviceClaim(DeviceClaim&& other) noexcept;
  ~DeviceClaim();

 private:
  DeviceClaim(DeviceNames devices, int folder);
  void write_file(const std::string& who);
  std::vector<std::string> others() const;

  DeviceNames devices_;
  int folder_;     // -1: moved from
  int file_ = -1;  // this claim's
  std::string name_{};
};

// Lets one runner at a time work on an experiment of a results folder. The kernel releases the lock
// when the process ends, however it ends.
class ExperimentLock {
 public:
  // Waits if a process holds the lock by for_a_moment(), and says so. Throws std::runtime_error
  // that names the other process if it holds the lock for longer. Creates the results folder.
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
