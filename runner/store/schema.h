#pragma once

#include <string>

#include "contract/record/event.h"
#include "runner/store/comparison.h"

namespace fsdp {

// What creates the tables and views of a results database. Columns of what ranks report and of what
// is computed from it follow from the visit_fields of their structs, settings from the run's
// specification: tests/golden/schema.sql is what comes of it, and a change there is a new version
// (migrations.h).
std::string schema();

// What ComparisonRow and RankRow are read from, in the order of reports: the view `comparison` with
// what would fill a screen there, and the view `comparison_per_rank`. With Listed::kEver those too
// that are no longer in their experiment's list, which the views leave out.
std::string comparison_rows(Listed listed);
std::string comparison_per_rank_rows(Listed listed);

// The table of the events with this body.
struct EventTable {
  const char* name;
  const char* number;  // the column that no two events of a rank have equal
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

}  // namespace fsdp
