#include "runner/sweep/device_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

#include "contract/record/cgroups.h"

namespace fsdp {
namespace {

constexpr std::string_view kMemoryLimit = ", memory limit ";

struct DeviceAndLimit {
  std::string_view device;
  int64_t limit_mib = std::numeric_limits<int64_t>::max();  // no limit
};

DeviceAndLimit parts_of(std::string_view device_kind) {
  const size_t found = device_kind.rfind(kMemoryLimit);
  DeviceAndLimit parts{.device = device_kind.substr(0, found)};
  if (found == std::string_view::npos) return parts;
  const std::string_view limit = device_kind.substr(found + kMemoryLimit.size());
  std::from_chars(limit.data(), limit.data() + limit.size(), parts.limit_mib);
  return parts;
}

}  // namespace

std::string device_kind(const RunSpec& spec, const std::string& gpu_kinds) {
  const std::string kind = spec.device == DeviceKind::kCuda ? gpu_kinds : "cpu";
  const std::optional<int64_t> limit = cgroup_memory_limit_bytes();
  return limit ? fmt::format("{}{}{} MiB", kind, kMemoryLimit, *limit >> 20) : kind;
}

bool runs_out_on(const std::string& device_kind, const RunSpec& spec, const RanOut& before) {
  const DeviceAndLimit then = parts_of(before.device_kind);
  const DeviceAndLimit now = parts_of(device_kind);
  if (then.device != now.device) return false;
  const int64_t own_mib = memory_limit_bytes(spec) >> 20;  // per rank
  const bool is_of_own =
      spec.device == DeviceKind::kCuda || (own_mib > 0 && own_mib <= then.limit_mib);
  return (before.is_said_by_rank && is_of_own) || now.limit_mib <= then.limit_mib;
}

bool are_of_one_device(std::string_view one, std::string_view other) {
  return parts_of(one).device == parts_of(other).device;
}

}  // namespace fsdp
