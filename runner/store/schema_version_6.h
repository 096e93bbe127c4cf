#pragma once

namespace fsdp {

// Runs found by their folder, which no two share; lines of events that could not be read; no token
// accuracy without labels; digests of files known by all that stat(2) says of a file, without those
// that were known by less.
inline constexpr const char* kSchemaVersion6 = R"sql(
create index runs_of_folders on runs (folder);

alter table ranks add column skipped_lines integer not null default 0;

create table evaluations_6 (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  step integer not null,
  loss real,
  non_finite integer not null,
  token_accuracy real,
  label_count integer not null,
  evaluation_time_ms real not null,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
insert into evaluations_6 select * from evaluations;
drop table evaluations;
alter table evaluations_6 rename to evaluations;

drop table file_digests;
create table file_digests (
  path text not null,
  device integer not null,
  inode integer not null,
  size_bytes integer not null,
  modified_unix_ns integer not null,
  changed_unix_ns integer not null,
  digest text not null,
  primary key (path, device, inode, size_bytes, modified_unix_ns, changed_unix_ns)
) without rowid;

drop view comparison;
create view comparison as
select r.experiment, e.source, r.id as run, substr(r.hash, 1, 8) as hash8, r.position, r.point,
  r.series, r.repeat, r.data_digest, r.loss_digest, r.family, r.family_key, r.family_value,
  r.memory_limit_gib, e.compare,
  r.strategy, r.sharding, r.wrap, r.prefetch, r.limit_all_gathers, r.offload, r.ranks,
  r.batch_size_per_rank, r.gradient_accumulation_steps, r.total_batch, r.precision, r.optimizer,
  r.schedule, r.device, r.sequence_length, r.activation_checkpointing_every,
  r.warmup_steps_excluded, r.folder, a.attempt, r.status, r.reason, a.reason_rank,
  a.started_unix_ms, a.host, a.slurm_job, a.node_list, a.git_commit, a.git_dirty, a.trainer_digest,
  k.device_name, k.device_memory_bytes,
  k.torch_version, k.cuda_version, k.driver_version, k.steps_planned, k.resumed_from_step,
  (select max(other_processes) from ranks where run = a.run and attempt = a.attempt)
    as other_processes,
  (select coalesce(sum(skipped_lines), 0) from ranks where run = a.run and attempt = a.attempt)
    as skipped_lines,
  s.steps, s.step_time_ms_median, s.step_time_ms_p25, s.step_time_ms_p75, s.steps_per_second,
  s.micro_batches_per_second, s.tokens_per_second, s.memory_allocated_bytes_max,
  s.memory_allocated_bytes_min, s.memory_reserved_bytes_max, s.memory_reserved_bytes_min,
  s.memory_allocated_bytes_forward_max, s.memory_allocated_bytes_forward_min,
  s.memory_reserved_bytes_forward_max, s.communication_time_ms_median,
  s.gpu_utilization_percent_mean, s.cpu_utilization_percent_mean, s.energy_joules, s.loss_first,
  s.loss_last, s.skipped_steps, s.non_finite_steps, s.validation_loss_first,
  s.validation_loss_last, s.validation_loss_best, s.token_accuracy_last,
  s.checkpoint_write_time_ms_median, s.total_time_ms, s.start_up_time_ms
from runs r
join experiments e on e.name = r.experiment
left join attempts a on a.run = r.id and a.attempt = coalesce(
  (select max(attempt) from attempts where run = r.id and status not in
    ('interrupted', 'time_limit', 'preempted', 'node_failed', 'cancelled', 'unknown')),
  (select max(attempt) from attempts where run = r.id))
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
where r.current = 1
order by r.experiment, r.position, r.family_value;
)sql";

}  // namespace fsdp
