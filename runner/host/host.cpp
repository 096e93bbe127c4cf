// Finds the GPUs of this host that runs may use.
#include "runner/host/host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <ranges>
#include <set>

#include "base/system/processor.h"
#include "base/text/bytes_text.h"
#include "base/text/config_error.h"

namespace fsdp {
namespace {

// Returns "process 4242 'python' (3.0 GiB), process ...". Empty if no process computes on the GPU.
std::string holders_text(const Nvml& nvml, int index) {
  std::vector<std::string> holders;
  for (const NvmlProcessInfo& process : nvml.processes_on(index)) {
    std::string& holder = holders.emplace_back(fmt::format("process {}", process.process_id));
    const std::string name = nvml.process_name(process.process_id);
    if (!name.empty()) holder += fmt::format(" '{}'", name);
    if (process.used_gpu_memory != kNvmlValueNotAvailable) {
      holder += fmt::format(" ({})", bytes_text(static_cast<int64_t>(process.used_gpu_memory)));
    }
  }
  return fmt::to_string(fmt::join(holders, ", "));
}

bool matches(const Gpu& gpu, std::string_view item) {
  int index = -1;
  const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), index);
  if (error == std::errc() && end == item.data() + item.size()) return gpu.index == index;
  return item.starts_with("GPU-") && gpu.uuid.starts_with(item);
}

std::vector<Gpu> usable_gpus(const std::optional<std::string>& gpus_option) {
  const std::unique_ptr<Nvml> nvml = Nvml::open();
  const std::vector<Gpu> found = nvml ? nvml->gpus() : std::vector<Gpu>();
  if (gpus_option) return choose_gpus(found, *gpus_option, "--gpus");
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr || found.empty()) return found;
  if (std::string_view(visible) == "-1") return {};
  return choose_gpus(found, visible, "CUDA_VISIBLE_DEVICES");
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::vector<Gpu> choose_gpus(const std::vector<Gpu>& found, std::string_view list,
                             const std::string& place) {
  std::vector<Gpu> chosen;
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    const auto gpu =
        std::ranges::find_if(found, [&](const Gpu& candidate) { return matches(candidate, item); });
    if (gpu == found.end()) {
      throw ConfigError(place, "",
                        fmt::format("'{}' is not a GPU of this host; allowed: {}{}", item,
                                    found.empty() ? "none, no NVIDIA GPU was found" : "",
                                    fmt::join(found | std::views::transform(&Gpu::index), ", ")));
    }
    if (std::ranges::find(chosen, gpu->index, &Gpu::index) != chosen.end()) {
      throw ConfigError(place, "", fmt::format("GPU {} is named twice", gpu->index));
    }
    chosen.push_back(*gpu);
  }
  return chosen;
}

std::vector<Gpu> unheld_gpus(std::span<const Gpu> gpus, size_t needed) {
  const std::unique_ptr<Nvml> nvml = gpus.empty() ? nullptr : Nvml::open();
  if (!nvml) return {gpus.begin(), gpus.end()};
  std::vector<Gpu> unheld;
  std::string holders;
  for (const Gpu& gpu : gpus) {
    const std::string held = holders_text(*nvml, gpu.index);
    if (held.empty()) {
      unheld.push_back(gpu);
    } else {
      holders += fmt::format("GPU {} ({}) is held by {}; ", gpu.index, gpu.name, held);
    }
  }
  if (unheld.size() < needed) {
    throw ConfigError(
        "", "",
        fmt::format("{} needed, but only {} free; {}wait for these processes, stop "
                    "them, or choose other GPUs with --gpus",
                    needed == 1 ? "1 GPU is" : fmt::format("{} GPUs are", needed),
                    unheld.size() == 1 ? "1 is" : fmt::format("{} are", unheld.size()), holders));
  }
  return unheld;
}

std::string device_kinds(std::span<const Gpu> gpus) {
  std::set<std::string> kinds;
  for (const Gpu& gpu : gpus) {
    kinds.insert(fmt::format("{} {} MiB", gpu.name, gpu.memory_bytes >> 20));
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

Host find_host(const std::optional<std::string>& gpus_option) {
  Host host{.name = host_name(), .gpus = usable_gpus(gpus_option), .resources = {}};
  host.resources.cpu_cores = available_cores();
  host.resources.gpu_count = std::ssize(host.gpus);
  for (const Gpu& gpu : host.gpus) {
    const double gib = static_cast<double>(gpu.memory_bytes) / (1 << 30);
    double& smallest = host.resources.gpu_memory_gib;
    smallest = smallest == 0 ? gib : std::min(smallest, gib);
  }
  return host;
}

}  // namespace fsdp
