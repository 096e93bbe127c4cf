#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/processor.h"

// The CPUs that a rank runs on: those next to its GPU.
namespace fsdp {

// Parses Linux's CPU lists, such as "0-3,8"; an empty text lists none. Returns nullopt if the text
// is no list.
std::optional<Cpus> parse_cpu_list(std::string_view text);
std::string cpu_list_text(const Cpus& cpus);

// Returns the CPUs to bind a rank to: the `allowed` ones that are local to its GPU. `local` lists
// the CPUs of each rank's GPU on this host. Returns nullopt if none or all of the allowed CPUs are
// local. Also returns nullopt if the ranks that share the local CPUs would get less than an even
// share of the allowed ones.
std::optional<Cpus> cpus_to_bind_to(const Cpus& allowed, const std::vector<Cpus>& local,
                                    int local_rank);

// Returns the CPUs that the host reports as local to a PCI device, such as "0000:3b:00.0"; empty if
// unknown. `sysfs` is the path of the kernel's /sys.
Cpus cpus_local_to(const std::string& pci_id, const std::filesystem::path& sysfs);

// Binds all threads of this process to its allowed CPUs that are local to its device. `pci_ids`
// holds the device of each rank of this host. Returns the CPUs as text; empty if unchanged.
std::string bind_to_local_cpus(const std::vector<std::string>& pci_ids, int local_rank,
                               const std::filesystem::path& sysfs = "/sys");

}  // namespace fsdp
