#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "contract/devices/device_requirements.h"
#include "contract/devices/nvml.h"

// Checks whether this host has everything that runs need.
namespace fsdp {

// Returns the build that the trainer reports; nullopt if the trainer does not start here.
std::optional<TrainerBuild> build_of(const std::filesystem::path& trainer);

struct NvidiaHost {
  NvidiaDriver driver;
  std::vector<Gpu> gpus;
  std::string problem;  // set if a driver is there and does not answer
};
NvidiaHost nvidia_of_host();

// Returns the reasons why the driver and the GPUs do not suit the trainer, each once. There are
// none if the trainer was built without CUDA.
std::vector<Misfit> misfits(const TrainerBuild& build, const NvidiaDriver& driver,
                            const std::vector<Gpu>& gpus);

struct Space {
  double size_bytes = 0;
  double free_bytes = 0;  // for this user
  bool is_writable = false;
};
// Returns the space of the file system of `folder`, or of the nearest existing folder above it.
std::optional<Space> space_of(const std::filesystem::path& folder);

enum class FindingLevel { kOk, kWarning, kMissing };
constexpr auto enum_names(FindingLevel) { return std::array{"ok"sv, "warning"sv, "missing"sv}; }

// The result of one check. Only kMissing keeps the lab's experiment from running.
struct Finding {
  FindingLevel level = FindingLevel::kOk;
  std::string subject;
  std::string found;
  std::string remedy{};  // what to do, or what it is for; empty if all is well
};

// Checks this host. If something is absent, even `trainer` (fsdp-train), this is a finding and no
// error.
std::vector<Finding> examine(const std::filesystem::path& trainer,
                             const std::filesystem::path& results);

// Returns lines of at most `width` columns, unless a word is longer. The last line tells whether
// the lab can run.
std::string findings_text(const std::vector<Finding>& findings, size_t width);

bool lab_can_run(const std::vector<Finding>& findings);

}  // namespace fsdp
