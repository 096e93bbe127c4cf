#include "runner/report/column_values.h"
#include "runner/report/figures.h"

namespace fsdp {
namespace {

using enum Alignment;

std::vector<Column> columns_of_ranks() {
  using Rank = RankRow;
  return {
      {"experiment", "", "Name of the experiment.", kLeft, of(&Rank::experiment)},
      {"position", "", "Place of the run in the experiment.", kRight, of(&Rank::position)},
      {"point", "point", "Name of the point.", kLeft, of(&Rank::point),
       [](auto& row) { return row.rank->point; }},
      {"run", "", "Number of the run in the database.", kRight, of(&Rank::run)},
      {"attempt", "", "Number of the newest attempt.", kRight, of(&Rank::attempt)},
      {"strategy", "strategy", "single, ddp or fsdp; for people with sharding and +offload.", kLeft,
       of(&ComparisonRow::strategy), strategy_text},
      {"sharding", "", "What fsdp shards, and within how many ranks; else empty.", kLeft,
       of(&ComparisonRow::sharding)},
      {"offload", "", "What lives in CPU memory.", kLeft, of(&ComparisonRow::offload)},
      {"rank", "rank", "The process among the run's.", kRight, of(&Rank::rank),
       [](auto& row) { return row.rank->rank ? std::to_string(*row.rank->rank) : "-"; }},
      {"host", "", "Where it ran.", kLeft, of(&Rank::host)},
      {"device", "device", "What it computed on.", kLeft, of(&Rank::device),
       [](auto& row) { return row.rank->device.empty() ? "-" : row.rank->device; }},
      {"device_name", "", "Name of the processor or GPU.", kLeft, of(&Rank::device_name)},
      {"memory_allocated_bytes_max", "allocated\npeak GiB", "Peak allocated memory.", kRight,
       of(&Rank::memory_allocated_bytes_max),
       [](auto& row) { return gibibytes(row.rank->memory_allocated_bytes_max); }},
      {"memory_allocated_bytes_forward", "allocated after\nforward GiB",
       "Most memory allocated at the end of a step's last forward.", kRight,
       of(&Rank::memory_allocated_bytes_forward),
       [](auto& row) { return gibibytes(row.rank->memory_allocated_bytes_forward); }},
      {"memory_reserved_bytes_max", "reserved\npeak GiB", "Peak reserved memory.", kRight,
       of(&Rank::memory_reserved_bytes_max),
       [](auto& row) { return gibibytes(row.rank->memory_reserved_bytes_max); }},
      {"memory_reserved_bytes_forward", "reserved after\nforward GiB",
       "Most memory reserved at the end of a step's last forward.", kRight,
       of(&Rank::memory_reserved_bytes_forward),
       [](auto& row) { return gibibytes(row.rank->memory_reserved_bytes_forward); }},
      {"step_time_ms_median", "step time\nms", "Median time of this rank's steps.", kRight,
       of(&Rank::step_time_ms_median),
       [](auto& row) { return three_digits(row.rank->step_time_ms_median); }},
      {"steps", "steps", "Optimizer steps it did in this attempt.", kRight, of(&Rank::steps),
       [](auto& row) { return row.rank->steps ? std::to_string(*row.rank->steps) : "-"; }},
      {"status", "status", "How the run stands.", kLeft, of(&Rank::status),
       [](auto& row) { return std::string(name_of(row.rank->status)); }},
  };
}

}  // namespace

std::span<const Column> rank_columns() {
  static const std::vector<Column> all = columns_of_ranks();
  return all;
}

}  // namespace fsdp
