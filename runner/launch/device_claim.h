#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

// Shows which runners of this host measure on which devices.
namespace fsdp {

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

}  // namespace fsdp
