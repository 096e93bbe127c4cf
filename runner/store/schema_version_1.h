#pragma once

namespace fsdp {

// The tables of the first version, and the views that reports read.
inline constexpr const char* kSchemaVersion1 = R"sql(
create table experiments (
  name text primary key,
  title text not null,
  file text not null,
  text text not null,
  profile text not null
);

create table runs (
  id integer primary key,
  experiment text not null references experiments (name),
  point text not null,
  hash text not null,
  folder text not null,
  position integer not null,
  current integer not null check (current in (0, 1)),
  status text not null,
  reason text not null,
  spec text not null,
  strategy text not null,
  offload text not null,
  ranks integer not null,
  batch_size_per_rank integer not null,
  gradient_accumulation_steps integer not null,
  total_batch integer not null,
  precision text not null,
  device text not null,
  sequence_length integer not null,
  activation_checkpointing_every integer not null,
  warmup_steps_excluded integer not null,
  unique (experiment, point, hash)
);

create table attempts (
  run integer not null references runs (id),
  attempt integer not null,
  status text not null,
  reason text not null,
  reason_rank integer,
  started_unix_ms integer not null,
  ended_unix_ms integer,
  host text not null,
  runner_process_id integer not null,
  primary key (run, attempt)
) without rowid;
create index running_attempts on attempts (run) where status = 'running';

create table ranks (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  last_sequence integer not null,
  last_event_unix_ms integer,
  started_unix_ms integer,
  world_size integer,
  local_rank integer,
  host text,
  process_id integer,
  device text,
  device_name text,
  threads integer,
  steps_planned integer,
  parameter_count integer,
  torch_version text,
  end_kind text not null default 'none',
  ended_unix_ms integer,
  exit_code integer,
  reason text,
  steps integer,
  step_time_ms_median real,
  memory_allocated_bytes_forward integer,
  memory_reserved_bytes_forward integer,
  memory_allocated_bytes_max integer,
  memory_reserved_bytes_max integer,
  primary key (run, attempt, rank),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;

create table steps (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  step integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  loss real,
  non_finite integer not null,
  step_time_ms real not null,
  tokens integer not null,
  label_count integer not null,
  learning_rate real not null,
  gradient_norm real,
  memory_allocated_bytes_forward integer not null,
  memory_reserved_bytes_forward integer not null,
  memory_allocated_bytes_max integer not null,
  memory_reserved_bytes_max integer not null,
  primary key (run, attempt, rank, step),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;

create table summaries (
  run integer not null,
  attempt integer not null,
  steps integer not null,
  step_time_ms_median real,
  step_time_ms_p25 real,
  step_time_ms_p75 real,
  steps_per_second real,
  micro_batches_per_second real,
  tokens_per_second real,
  memory_allocated_bytes_max integer,
  memory_allocated_bytes_min integer,
  memory_reserved_bytes_max integer,
  memory_reserved_bytes_min integer,
  loss_first real,
  loss_last real,
  total_time_ms integer,
  start_up_time_ms real,
  primary key (run, attempt),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;

create table file_digests (
  path text primary key,
  size_bytes integer not null,
  modified_unix_ns integer not null,
  digest text not null
) without rowid;

create view comparison as
select r.experiment, r.id as run, substr(r.hash, 1, 8) as hash8, r.position, r.point,
  r.strategy, r.offload, r.ranks, r.batch_size_per_rank, r.gradient_accumulation_steps,
  r.total_batch, r.precision, r.device, r.sequence_length, r.activation_checkpointing_every,
  r.warmup_steps_excluded, r.folder, a.attempt, r.status, r.reason, a.reason_rank, k.device_name,
  s.steps, s.step_time_ms_median, s.step_time_ms_p25, s.step_time_ms_p75, s.steps_per_second,
  s.micro_batches_per_second, s.tokens_per_second, s.memory_allocated_bytes_max,
  s.memory_allocated_bytes_min, s.memory_reserved_bytes_max, s.memory_reserved_bytes_min,
  s.loss_first, s.loss_last, s.total_time_ms, s.start_up_time_ms
from runs r
left join attempts a on a.run = r.id and a.attempt = coalesce(
  (select max(attempt) from attempts where run = r.id and status not in ('interrupted')),
  (select max(attempt) from attempts where run = r.id))
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
where r.current = 1
order by r.experiment, r.position;

create view comparison_per_rank as
select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, k.steps, k.step_time_ms_median, k.memory_allocated_bytes_forward,
  k.memory_reserved_bytes_forward, k.memory_allocated_bytes_max, k.memory_reserved_bytes_max
from comparison c
join ranks k on k.run = c.run and k.attempt = c.attempt
order by c.experiment, c.position, k.rank;
)sql";

}  // namespace fsdp
