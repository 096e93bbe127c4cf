#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>

// Which CPUs a rank runs on: those next to its GPU.
namespace fsdp {

using Cpus = std::set<int>;

// "0-3,8" as Linux lists CPUs, an empty text is none; nullopt when it is no such list.
std::optional<Cpus> parse_cpu_list(std::string_view text);
std::string cpu_list_text(const Cpus& cpus);

// Those that a rank is bound to, of the `allowed` ones and those `local` to its GPU: the ones that
// are both. Nullopt when it is left as it is: where none is both, and where as few or fewer are
// allowed than are local, as a launcher has then chosen already.
std::optional<Cpus> cpus_to_bind_to(const Cpus& allowed, const Cpus& local);

// What the host says is local to the device on the PCI bus, such as "0000:3b:00.0"; empty when it
// does not say. `sysfs` is where the kernel's /sys is.
Cpus cpus_local_to(const std::string& pci_id, const std::filesystem::path& sysfs);

// Binds this process, all of its threads, to CPUs local to the device, but never to one that it may
// not use now. Returns which, as text; empty when nothing has changed.
std::string bind_to_cpus_local_to(const std::string& pci_id,
                                  const std::filesystem::path& sysfs = "/sys");

}  // namespace fsdp
