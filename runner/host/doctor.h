#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/text/fields.h"

// A host's equipment for runs, and its gaps.
namespace fsdp {

enum class FindingLevel { kOk, kWarning, kMissing };
constexpr auto enum_names(FindingLevel) { return std::array{"ok"sv, "warning"sv, "missing"sv}; }

// The result of one check. Only kMissing keeps the lab's experiment from running.
struct Finding {
  FindingLevel level = FindingLevel::kOk;
  std::string subject;
  std::string found;
  std::string remedy{};  // how to get it, or its use; empty if all is well
};

struct DoctorPlaces {
  std::filesystem::path trainer;  // fsdp-train; the file may be absent
  std::filesystem::path results;
};

// Never fails because something is absent.
std::vector<Finding> examine(const DoctorPlaces& places);

// Returns lines of at most `width` columns, unless a word is longer. The last tells if the lab can
// run.
std::string findings_text(const std::vector<Finding>& findings, size_t width);

bool lab_can_run(const std::vector<Finding>& findings);

}  // namespace fsdp
