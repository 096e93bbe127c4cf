#include "runner/host/device_fit.h"

#include <algorithm>

#include "contract/text/foreign_json.h"
#include "runner/host/host_facts.h"

namespace fsdp {

std::optional<TrainerBuild> build_of(const std::filesystem::path& trainer) {
  try {
    const auto said = parse_foreign_json(version_line(trainer));
    TrainerBuild build;
    TrainerBuild::visit_fields(build, [&](const char* name, std::string& member, auto&&...) {
      said.at(name).get_to(member);
    });
    return build;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

NvidiaHost nvidia_of_host() {
  try {
    const std::unique_ptr<Nvml> nvml = Nvml::open();
    return nvml ? NvidiaHost{nvml->driver(), nvml->gpus(), ""} : NvidiaHost{};
  } catch (const std::runtime_error& error) {
    return {NvidiaDriver{.version = nvidia_driver_version(), .cuda_version = ""}, {}, error.what()};
  }
}

std::vector<Misfit> misfits(const TrainerBuild& build, const NvidiaDriver& driver,
                            const std::vector<Gpu>& gpus) {
  std::vector<Misfit> found;
  const auto add = [&](const std::optional<Misfit>& misfit) {
    if (misfit && std::ranges::find(found, *misfit) == found.end()) found.push_back(*misfit);
  };
  if (build.cuda_version.empty()) return found;
  add(driver_misfit(build, driver));
  for (const Gpu& gpu : gpus) {
    if (gpu.capability) add(gpu_misfit(build, gpu.name, *gpu.capability));
  }
  return found;
}

}  // namespace fsdp
