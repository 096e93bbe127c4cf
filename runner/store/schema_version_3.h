#pragma once

namespace fsdp {

// Evaluations, checkpoints, samples of devices, and what tells runs of the same strategy apart.
// What older attempts did is what these columns' defaults say.
inline constexpr const char* kSchemaVersion3 = R"sql(
drop view comparison;

alter table runs add column sharding text not null default '';
update runs set sharding = 'full_shard' where strategy = 'fsdp';
alter table runs add column wrap text not null default 'transformer_block';
alter table runs add column prefetch integer not null default 1;
alter table runs add column limit_all_gathers integer not null default 1;
alter table runs add column optimizer text not null default 'adamw';
alter table runs add column schedule text not null default 'constant';

alter table ranks add column resumed_from_step integer;
update ranks set resumed_from_step = 0 where started_unix_ms is not null;
alter table ranks add column warning text;

alter table steps add column skipped integer not null default 0;
alter table steps add column gradient_scale real;

alter table summaries add column skipped_steps integer;
alter table summaries add column non_finite_steps integer;
update summaries set skipped_steps = 0, non_finite_steps = (
  select count(*) from steps
  where run = summaries.run and attempt = summaries.attempt and rank = 0 and non_finite)
where exists (
  select 1 from steps where run = summaries.run and attempt = summaries.attempt and rank = 0);
alter table summaries add column validation_loss_first real;
alter table summaries add column validation_loss_last real;
alter table summaries add column validation_loss_best real;
alter table summaries add column token_accuracy_last real;
alter table summaries add column checkpoint_write_time_ms_median real;

create table evaluations (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  step integer not null,
  loss real,
  non_finite integer not null,
  token_accuracy real not null,
  label_count integer not null,
  evaluation_time_ms real not null,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;

create table checkpoints (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  step integer not null,
  path text not null,
  size_bytes integer not null,
  write_time_ms real not null,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;

create table device_samples (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  host text not null,
  device text not null,
  device_name text not null,
  utilization_percent real,
  memory_used_bytes integer,
  memory_total_bytes integer,
  power_watts real,
  temperature_celsius real,
  sm_clock_mhz real,
  memory_clock_mhz real,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;

create view comparison as
select r.experiment, r.id as run, substr(r.hash, 1, 8) as hash8, r.position, r.point,
  r.strategy, r.sharding, r.wrap, r.prefetch, r.limit_all_gathers, r.offload, r.ranks,
  r.batch_size_per_rank, r.gradient_accumulation_steps, r.total_batch, r.precision, r.optimizer,
  r.schedule, r.device, r.sequence_length, r.activation_checkpointing_every,
  r.warmup_steps_excluded, r.folder, a.attempt, r.status, r.reason, a.reason_rank, k.device_name,
  k.resumed_from_step, s.steps, s.step_time_ms_median, s.step_time_ms_p25, s.step_time_ms_p75,
  s.steps_per_second, s.micro_batches_per_second, s.tokens_per_second,
  s.memory_allocated_bytes_max, s.memory_allocated_bytes_min, s.memory_reserved_bytes_max,
  s.memory_reserved_bytes_min, s.loss_first, s.loss_last, s.skipped_steps, s.non_finite_steps,
  s.validation_loss_first, s.validation_loss_last, s.validation_loss_best, s.token_accuracy_last,
  s.checkpoint_write_time_ms_median, s.total_time_ms, s.start_up_time_ms
from runs r
left join attempts a on a.run = r.id and a.attempt = coalesce(
  (select max(attempt) from attempts where run = r.id and status not in ('interrupted')),
  (select max(attempt) from attempts where run = r.id))
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
where r.current = 1
order by r.experiment, r.position;
)sql";

}  // namespace fsdp
