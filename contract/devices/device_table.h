#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/training_spec.h"

namespace fsdp {

// The text of devices.yaml, which explains each figure and names its source.
extern const char* const kDeviceTable;

// A kind of GPU. Unknown values are absent.
struct DeviceModel {
  std::string name;  // "a100-80"
  std::vector<std::string> driver_names{};
  double memory_gib = 0;
  int compute_capability = 0;  // 80 for 8.0
  std::optional<double> fp32_tflops{};
  std::optional<double> tf32_tflops{};
  std::optional<double> bf16_tflops{};
  std::optional<double> fp16_tflops{};
  std::optional<double> memory_gb_per_second{};
  std::optional<double> host_link_gb_per_second{};  // in one direction
  std::optional<double> nvlink_gb_per_second{};     // in one direction
  std::optional<double> hfu_percent{};              // measured by others

  // The peak for matrix products of this type. Products of fp32 do not use tensor cores.
  std::optional<double> peak_tflops(Dtype dtype) const;
};

struct DeviceTable {
  std::vector<DeviceModel> devices;
  double context_gib = 0;            // part of a GPU's memory that CUDA takes
  double context_with_nccl_gib = 0;  // the same with NCCL's buffers

  // Finds a device by its name ("a100-80", "A100-80"), or by the beginning of one name ("h100").
  // Finds a GPU of any size by that size: "24GB" is 24e9 bytes, "24GiB" is 24 GiB. Throws
  // ConfigError if there is no such GPU.
  DeviceModel find(const std::string& name) const;
  // The device with this driver name, such as "NVIDIA H100 80GB HBM3". Null if the name is unknown,
  // like those of slices of a GPU (MIG).
  const DeviceModel* device_of(std::string_view driver_name) const;
};

const DeviceTable& device_table();

}  // namespace fsdp
