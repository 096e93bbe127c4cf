#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// Which CPUs a rank runs on: those next to its GPU.
namespace fsdp {

using Cpus = std::set<int>;

// "0-3,8" as Linux lists CPUs, an empty text is none; nullopt when it is no such list.
std::optional<Cpus> parse_cpu_list(std::string_view text);
std::string cpu_list_text(const Cpus& cpus);

// Returns the CPUs that the thread may run on, 0: the calling one. Empty: not known.
Cpus allowed_cpus(int thread = 0);

// Those that a rank is bound to: the `allowed` ones that are local to its GPU. `local`: of the GPU
// of each rank of this host. Nullopt when it is left as it is: where that would leave it, and those
// whose GPUs are next to the same CPUs, less than an even share of the allowed ones.
std::optional<Cpus> cpus_to_bind_to(const Cpus& allowed, const std::vector<Cpus>& local,
                                    int local_rank);

// What the host says is local to the device on the PCI bus, such as "0000:3b:00.0"; empty when it
// does not say. `sysfs` is where the kernel's /sys is.
Cpus cpus_local_to(const std::string& pci_id, const std::filesystem::path& sysfs);

// Binds this process, all of its threads, to CPUs local to its device, of those that it may use
// now. `pci_ids`: of each rank of this host. Returns which, as text; empty when nothing has
// changed.
std::string bind_to_local_cpus(const std::vector<std::string>& pci_ids, int local_rank,
                               const std::filesystem::path& sysfs = "/sys");

}  // namespace fsdp
