#include "runner/report/warnings.h"

#include <array>
#include <optional>

#include "runner/report/names.h"
#include "runner/report/warning_checks.h"

namespace fsdp {

Runs started_runs(Rows rows) {
  Runs runs;
  for (const Series* series : rows) {
    for (const ComparisonRow* run : series->runs) {
      if (run->attempt) runs.push_back(run);
    }
  }
  return runs;
}

Runs finished_runs(Rows rows) {
  Runs runs = started_runs(rows);
  std::erase_if(runs, [](auto* run) { return run->status != RunStatus::kFinished; });
  return runs;
}

std::string points_of(const Runs& runs) {
  std::vector<std::string> names;
  for (const ComparisonRow* run : runs) names.push_back(run->point);
  return joined_names(names);
}

namespace {

struct Check {
  const char* name;
  std::optional<std::string> (*check)(Rows rows);
};

constexpr std::array kChecks{
    Check{"different_commit", different_commit},
    Check{"different_trainer", different_trainer},
    Check{"different_versions", different_versions},
    Check{"different_device", different_device},
    Check{"different_data", different_data},
    Check{"different_total_batch", different_total_batch},
    Check{"different_steps", different_steps},
    Check{"lost_events", lost_events},
    Check{"losses_disagree", losses_disagree},
    Check{"few_steps", few_steps},
    Check{"noisy_step_times", noisy_step_times},
    Check{"other_processes", other_processes},
    Check{"side_by_side", side_by_side},
    Check{"resumed", resumed},
    Check{"repeats_differ", repeats_differ},
};

}  // namespace

std::vector<Warning> warnings_for(std::span<const Series* const> rows) {
  std::vector<Warning> warnings;
  for (const Check& check : kChecks) {
    if (auto text = check.check(rows)) {
      warnings.push_back({.name = check.name, .text = std::move(*text)});
    }
  }
  return warnings;
}

}  // namespace fsdp
