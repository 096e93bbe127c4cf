#include "runner/plan/device_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "contract/text/config_error.h"
#include "contract/text/fields.h"

namespace fsdp {
namespace {

DeviceTable read_table() {
  const YAML::Node file = YAML::Load(kDeviceTable);
  DeviceTable table{.devices = {},
                    .context_gib = file["context"]["gib"].as<double>(),
                    .context_with_nccl_gib = file["context_with_nccl"]["gib"].as<double>()};
  for (const YAML::Node& device : file["devices"]) {
    table.devices.push_back({.name = device["name"].as<std::string>(),
                             .memory_gib = device["memory_gib"].as<double>(),
                             .compute_capability = device["compute_capability"].as<int>()});
  }
  return table;
}

}  // namespace

const DeviceModel& DeviceTable::find(const std::string& name) const {
  const auto found = std::ranges::find(devices, name, &DeviceModel::name);
  if (found != devices.end()) return *found;
  std::vector<std::string> names;
  for (const DeviceModel& device : devices) names.push_back(device.name);
  const std::string nearest = nearest_name(name, names);
  throw ConfigError("--gpu", name,
                    fmt::format("is no GPU that is known; allowed: {}", fmt::join(names, ", ")) +
                        (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

const DeviceTable& device_table() {
  static const DeviceTable table = read_table();
  return table;
}

}  // namespace fsdp
