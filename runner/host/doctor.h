#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/text/fields.h"

// What a host has and lacks for runs.
namespace fsdp {

enum class FindingLevel { kOk, kWarning, kMissing };
constexpr auto enum_names(FindingLevel) { return std::array{"ok"sv, "warning"sv, "missing"sv}; }

// One thing that was looked for. Only kMissing keeps the lab's experiment from running.
struct Finding {
  FindingLevel level = FindingLevel::kOk;
  std::string subject;
  std::string found;
  std::string remedy{};  // how to get it, or what it is good for; empty when all is well
};

struct DoctorPlaces {
  std::filesystem::path trainer;  // fsdp-train, whether it is there or not
  std::filesystem::path results;
};

// Never fails because of something that is absent.
std::vector<Finding> examine(const DoctorPlaces& places);

// Lines of at most `width` columns where words allow it, and what follows from them at the end.
std::string findings_text(const std::vector<Finding>& findings, size_t width);

bool lab_can_run(const std::vector<Finding>& findings);

}  // namespace fsdp
