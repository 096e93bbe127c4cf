#pragma once

namespace fsdp {

// A run of which no rank has reported anything has a line too.
inline constexpr const char* kSchemaVersion2 = R"sql(
drop view comparison_per_rank;
create view comparison_per_rank as
select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, k.steps, k.step_time_ms_median, k.memory_allocated_bytes_forward,
  k.memory_reserved_bytes_forward, k.memory_allocated_bytes_max, k.memory_reserved_bytes_max
from comparison c
left join ranks k on k.run = c.run and k.attempt = c.attempt
order by c.experiment, c.position, k.rank;
)sql";

}  // namespace fsdp
