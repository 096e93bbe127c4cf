#include "runner/launch/gpus.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <memory>

#include "contract/text/config_error.h"

namespace fsdp {
namespace {

std::string gib_text(unsigned long long bytes) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GiB", double(bytes) / (1ULL << 30));
  return text.data();
}

// "process 4242 'python' (3.0 GiB), process ..."; empty when none computes on it.
std::string holders_text(const Nvml& nvml, int index) {
  std::string text;
  for (const NvmlProcessInfo& process : nvml.processes_on(index)) {
    if (!text.empty()) text += ", ";
    text += "process " + std::to_string(process.process_id);
    const std::string name = nvml.process_name(process.process_id);
    if (!name.empty()) text += " '" + name + "'";
    if (process.used_gpu_memory != kNvmlValueNotAvailable) {
      text += " (" + gib_text(process.used_gpu_memory) + ")";
    }
  }
  return text;
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
    const auto gpu = std::find_if(found.begin(), found.end(),
                                  [&](const Gpu& candidate) { return matches(candidate, item); });
    if (gpu == found.end()) {
      std::string allowed;
      for (const Gpu& candidate : found) {
        allowed += (allowed.empty() ? "" : ", ") + std::to_string(candidate.index);
      }
      throw ConfigError(place, "",
                        "'" + std::string(item) + "' is none of this host's GPUs; allowed: " +
                            (allowed.empty() ? "none, no NVIDIA GPU was found" : allowed));
    }
    const bool twice = std::any_of(chosen.begin(), chosen.end(),
                                   [&](const Gpu& other) { return other.index == gpu->index; });
    if (twice)
      throw ConfigError(place, "", "GPU " + std::to_string(gpu->index) + " is named twice");
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
      holders +=
          "GPU " + std::to_string(gpu.index) + " (" + gpu.name + ") is held by " + held + "; ";
    }
  }
  if (unheld.size() < needed) {
    throw ConfigError("", "",
                      std::to_string(needed) + (needed == 1 ? " GPU is" : " GPUs are") +
                          " needed, " + std::to_string(unheld.size()) + " free; " + holders +
                          "wait for them, stop them, or choose other GPUs with --gpus");
  }
  return unheld;
}

}  // namespace fsdp
