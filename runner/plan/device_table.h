#pragma once

#include <string>
#include <vector>

namespace fsdp {

// devices.yaml.
extern const char* const kDeviceTable;

// A kind of GPU.
struct DeviceModel {
  std::string name;  // "a100-80"
  double memory_gib = 0;
  int compute_capability = 0;  // 80 for 8.0
};

struct DeviceTable {
  std::vector<DeviceModel> devices;
  double context_gib = 0;            // what CUDA takes of a GPU's memory
  double context_with_nccl_gib = 0;  // and with NCCL's buffers

  // Throws ConfigError when there is none of that name.
  const DeviceModel& find(const std::string& name) const;
};

const DeviceTable& device_table();

}  // namespace fsdp
