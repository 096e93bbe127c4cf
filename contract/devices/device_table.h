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
  std::optional<double> hfu_percent{};              // as others measured it

  // The peak for matrix products of this type. Products of fp32 do not use tensor cores.
  std::optional<double> peak_tflops(Dtype dtype) const;
};

struct DeviceTable {
  std::vector<DeviceModel> devices;
  double context_gib = 0;            // part of a GPU's memory that CUDA takes
  double context_with_nccl_gib = 0;  // the same with NCCL's buffers

  // Finds a device by its name ("a100-80", "A100-80"), as device_of() does, or by a first part that
  // only one name has ("h100"). A size, such as "24GB" (24e9 bytes) or "24GiB", gives a GPU with
  // this memory and nothing else known. Throws ConfigError if `name` is none of these.
  DeviceModel find(const std::string& name) const;
  // The device with this driver name, such as "NVIDIA H100 80GB HBM3". Null if the name is unknown,
  // such as the name of a slice of a GPU (MIG).
  const DeviceModel* device_of(std::string_view driver_name) const;
};

const DeviceTable& device_table();

}  // namespace fsdp
