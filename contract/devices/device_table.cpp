// Reads devices.yaml, which is in the program. Unknown figures stay absent.
#include "contract/devices/device_table.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/text/config_error.h"
#include "base/text/fields.h"
#include "contract/spec/yaml_value.h"

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

// Simplifies a name: "a100-80" for "A100-80", "rtx4090" for "RTX 4090".
std::string without_ornaments(const std::string& name) {
  std::string plain;
  for (const char letter : name) {
    if (letter == ' ' || letter == '_') continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  return plain;
}

// nullopt if `text` is not a size such as "24gb" or "22.5gib".
std::optional<double> gib_of_size(std::string_view text) {
  constexpr double kMostGib = 1e5;
  double size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (unit != "gb" && unit != "gib") return std::nullopt;
  const double gib = unit == "gb" ? size * 1e9 / 0x1p30 : size;
  return gib > 0 && gib <= kMostGib ? std::optional(gib) : std::nullopt;
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

DeviceModel DeviceTable::find(const std::string& name) const {
  if (const DeviceModel* device = device_of(name)) return *device;
  const std::string plain = without_ornaments(name);
  std::vector<std::string> names, beginning_so;
  for (const DeviceModel& device : devices) {
    if (device.name == plain) return device;
    names.push_back(device.name);
    if (device.name.starts_with(plain + '-')) beginning_so.push_back(device.name);
  }
  if (beginning_so.size() == 1) return find(beginning_so.front());
  if (!beginning_so.empty()) {
    throw ConfigError("--gpu", name, "is several GPUs; allowed: " + joined(beginning_so));
  }
  if (const auto gib = gib_of_size(plain)) return {.name = name, .memory_gib = *gib};
  const std::string nearest = nearest_name(plain, names);
  throw ConfigError("--gpu", name,
                    "is not a known GPU; allowed: " + joined(names) + ", or a size such as 24GB" +
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
