#include "contract/devices/device_table.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "contract/text/config_error.h"
#include "contract/text/fields.h"

namespace fsdp {
namespace {

std::optional<double> read_number(const YAML::Node& device, const char* key) {
  return device[key] ? std::optional(device[key].as<double>()) : std::nullopt;
}

DeviceModel read_device(const YAML::Node& device) {
  return {.name = device["name"].as<std::string>(),
          .driver_names = device["driver_names"].as<std::vector<std::string>>(),
          .memory_gib = device["memory_gib"].as<double>(),
          .compute_capability = device["compute_capability"].as<int>(),
          .fp32_tflops = read_number(device, "fp32_tflops"),
          .tf32_tflops = read_number(device, "tf32_tflops"),
          .bf16_tflops = read_number(device, "bf16_tflops"),
          .fp16_tflops = read_number(device, "fp16_tflops"),
          .memory_gb_per_second = read_number(device, "memory_gb_per_second"),
          .host_link_gb_per_second = read_number(device, "host_link_gb_per_second"),
          .nvlink_gb_per_second = read_number(device, "nvlink_gb_per_second"),
          .hfu_percent = read_number(device, "hfu_percent")};
}

DeviceTable read_table() {
  const YAML::Node file = YAML::Load(kDeviceTable);
  DeviceTable table{.devices = {},
                    .context_gib = file["context"]["gib"].as<double>(),
                    .context_with_nccl_gib = file["context_with_nccl"]["gib"].as<double>()};
  for (const YAML::Node& device : file["devices"]) table.devices.push_back(read_device(device));
  return table;
}

}  // namespace

std::optional<double> DeviceModel::peak_tflops(Dtype dtype) const {
  switch (dtype) {
    case Dtype::kFp32:
      return fp32_tflops;
    case Dtype::kBf16:
      return bf16_tflops;
    case Dtype::kFp16:
      return fp16_tflops;
  }
  return std::nullopt;
}

const DeviceModel& DeviceTable::find(const std::string& name) const {
  const auto found = std::ranges::find(devices, name, &DeviceModel::name);
  if (found != devices.end()) return *found;
  std::vector<std::string> names;
  std::string allowed;
  for (const DeviceModel& device : devices) {
    names.push_back(device.name);
    allowed += (allowed.empty() ? "" : ", ") + device.name;
  }
  const std::string nearest = nearest_name(name, names);
  throw ConfigError("--gpu", name,
                    "is no GPU that is known; allowed: " + allowed +
                        (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

const DeviceModel* DeviceTable::device_of(std::string_view driver_name) const {
  const auto found = std::ranges::find_if(devices, [&](const DeviceModel& device) {
    return std::ranges::find(device.driver_names, driver_name) != device.driver_names.end();
  });
  return found == devices.end() ? nullptr : &*found;
}

const DeviceTable& device_table() {
  static const DeviceTable table = read_table();
  return table;
}

}  // namespace fsdp
