#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/report/series.h"

// What each warning looks for in rows that are shown together; absent: nothing to say.
namespace fsdp {

using Rows = std::span<const Series* const>;
using Runs = std::vector<const ComparisonRow*>;

// Runs that began, of all rows.
Runs started_runs(Rows rows);
Runs finished_runs(Rows rows);
std::string points_of(const Runs& runs);

std::optional<std::string> different_commit(Rows rows);
std::optional<std::string> different_trainer(Rows rows);
std::optional<std::string> different_versions(Rows rows);
std::optional<std::string> different_device(Rows rows);
std::optional<std::string> different_data(Rows rows);
std::optional<std::string> different_total_batch(Rows rows);
std::optional<std::string> different_steps(Rows rows);
std::optional<std::string> lost_events(Rows rows);
std::optional<std::string> losses_disagree(Rows rows);
std::optional<std::string> few_steps(Rows rows);
std::optional<std::string> noisy_step_times(Rows rows);
std::optional<std::string> other_processes(Rows rows);
std::optional<std::string> side_by_side(Rows rows);
std::optional<std::string> resumed(Rows rows);
std::optional<std::string> repeats_differ(Rows rows);

}  // namespace fsdp
