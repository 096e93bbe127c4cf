#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/strategy_spec.h"

namespace fsdp {

// devices.yaml, which says what each figure means and where it is from.
extern const char* const kDeviceTable;

// A kind of GPU. What is not known is absent.
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

  // Of products of matrices of this type. Those of fp32 do not use tensor cores.
  std::optional<double> peak_tflops(Dtype dtype) const;
};

struct DeviceTable {
  std::vector<DeviceModel> devices;
  double context_gib = 0;            // what CUDA takes of a GPU's memory
  double context_with_nccl_gib = 0;  // and with NCCL's buffers

  // By the name ("a100-80", "A100-80"), by its beginning if one device has it ("h100"), or a GPU of
  // any size: "24GB" is 24e9 bytes, "24GiB" is 24 GiB. Throws ConfigError if there is no such GPU.
  DeviceModel find(const std::string& name) const;
  // By the driver's name for it, such as "NVIDIA H100 80GB HBM3"; null: not known, as are slices of
  // a GPU (MIG).
  const DeviceModel* device_of(std::string_view driver_name) const;
};

const DeviceTable& device_table();

}  // namespace fsdp
