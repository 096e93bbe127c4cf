#include "runner/host/host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <thread>

namespace fsdp {
namespace {

std::vector<Gpu> usable_gpus(const std::optional<std::string>& gpus_option) {
  const std::vector<Gpu> found = find_gpus();
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

std::string device_kinds(std::span<const Gpu> gpus) {
  std::set<std::string> kinds;
  for (const Gpu& gpu : gpus) {
    kinds.insert(fmt::format("{} {} MiB", gpu.name, gpu.memory_bytes >> 20));
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

Host find_host(const std::optional<std::string>& gpus_option) {
  Host host{.name = host_name(), .gpus = usable_gpus(gpus_option), .resources = {}};
  host.resources.cpu_cores = std::max(1U, std::thread::hardware_concurrency());
  host.resources.gpu_count = std::ssize(host.gpus);
  for (const Gpu& gpu : host.gpus) {
    const double gib = static_cast<double>(gpu.memory_bytes) / (1 << 30);
    double& smallest = host.resources.gpu_memory_gib;
    smallest = smallest == 0 ? gib : std::min(smallest, gib);
  }
  return host;
}

}  // namespace fsdp
