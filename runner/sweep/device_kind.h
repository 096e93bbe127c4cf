#pragma once

#include <string>
#include <string_view>

#include "contract/spec/run_spec.h"

namespace fsdp {

// Returns the devices of a run with this specification: the kinds of GPUs, or "cpu". The memory
// limit of this process's cgroup is added if there is one.
std::string device_kind(const RunSpec& spec, const std::string& gpu_kinds);

// An attempt that ran out of memory.
struct RanOut {
  std::string_view device_kind;  // the attempt's
  bool is_said_by_rank = false;  // otherwise the kernel killed a rank
};

// True if a run with this specification would run out of memory on `device_kind` as well. The
// device must be the same. The cgroup's limit must be no larger, unless another limit was hit.
bool runs_out_on(const std::string& device_kind, const RunSpec& spec, const RanOut& before);

// True if both kinds are of one device, under any memory limit.
bool are_of_one_device(std::string_view one, std::string_view other);

}  // namespace fsdp
