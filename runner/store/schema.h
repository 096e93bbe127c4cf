#pragma once

#include <string>
#include <type_traits>

#include "contract/record/event.h"
#include "runner/store/comparison.h"

namespace fsdp {

// Returns the SQL that creates the tables and views of a results database. Columns of ranks'
// reports and of computed figures follow from the visit_fields of their structs.
// tests/golden/schema.sql holds the result. If that changes, the schema needs a new version
// (results_database.h).
std::string schema();

// Return the SQL to select StoredRow and RankRow from, in the order of reports: the views
// `comparison` and `comparison_per_rank`. With Listed::kEver, runs that left their experiment's
// list are included; the views lack them.
std::string comparison_rows(Listed listed);
std::string comparison_per_rank_rows(Listed listed);

// Selects an attempt's rows, by the parameters run and attempt.
inline const std::string kOfAttempt = " where run = ? and attempt = ?";

// Returns the statuses for which is_cut_short holds, as a list of SQL: "('interrupted', ...)".
std::string cut_short_statuses();

// The table of the events with this body. Its name is null if there is no such table.
struct EventTable {
  const char* name = nullptr;
  const char* number = nullptr;  // a column that is unique among a rank's events
};
template <typename Body>
inline constexpr EventTable event_table{};
template <>
inline constexpr EventTable event_table<StepDone>{"steps", "step"};
template <>
inline constexpr EventTable event_table<EvaluationDone>{"evaluations", "sequence"};
template <>
inline constexpr EventTable event_table<CheckpointDone>{"checkpoints", "sequence"};
template <>
inline constexpr EventTable event_table<DeviceSample>{"device_samples", "sequence"};
template <>
inline constexpr EventTable event_table<CpuUse>{"cpu_uses", "sequence"};
template <>
inline constexpr EventTable event_table<MemoryPeak>{"memory_peaks", "sequence"};
template <>
inline constexpr EventTable event_table<StepAccount>{"step_accounts", "step"};

// Calls visit(std::type_identity<Body>()) for each Body with a table.
template <typename Visit>
void visit_event_tables(Visit&& visit) {
  visit(std::type_identity<StepDone>());
  visit(std::type_identity<EvaluationDone>());
  visit(std::type_identity<CheckpointDone>());
  visit(std::type_identity<DeviceSample>());
  visit(std::type_identity<CpuUse>());
  visit(std::type_identity<MemoryPeak>());
  visit(std::type_identity<StepAccount>());
}

}  // namespace fsdp
