#include "runner/host/gpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <ranges>

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
      holder += fmt::format(" ({:.1f} GiB)", double(process.used_gpu_memory) / (1ULL << 30));
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

}  // namespace

std::vector<Gpu> find_gpus() {
  const std::unique_ptr<Nvml> nvml = Nvml::open();
  return nvml ? nvml->gpus() : std::vector<Gpu>{};
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
                        fmt::format("'{}' is none of this host's GPUs; allowed: {}{}", item,
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
    throw ConfigError("", "",
                      fmt::format("{} needed, {} free; {}wait for them, stop them, or choose other "
                                  "GPUs with --gpus",
                                  needed == 1 ? "1 GPU is" : fmt::format("{} GPUs are", needed),
                                  unheld.size(), holders));
  }
  return unheld;
}

}  // namespace fsdp
