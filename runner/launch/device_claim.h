#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

// Which runners of this host measure on which devices.
namespace fsdp {

// A GPU's UUID, or a core: "n1:cpu3".
using DeviceNames = std::set<std::string>;

// The cores of this host that this process may use. `host` is its name: several hosts may share the
// folder.
DeviceNames own_cores(const std::string& host);

// A file in a folder that the host's users share, with a lock on it that the kernel takes back when
// the process ends, however it ends: a runner that others can see.
class DeviceClaim {
 public:
  // `who` is what other runners say of this one. Absent: others have some of the devices, which
  // `holders` is told, and they are not to be shared. Throws std::system_error when the folder,
  // fsdp-run.devices in the system's for temporary files, cannot be used.
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
