#include "runner/store/migrations.h"

#include <array>

namespace fsdp {
namespace {

constexpr const char* kVersion1 = R"sql(
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

// A run of which no rank has reported anything has a line too.
constexpr const char* kVersion2 = R"sql(
drop view comparison_per_rank;
create view comparison_per_rank as
select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, k.steps, k.step_time_ms_median, k.memory_allocated_bytes_forward,
  k.memory_reserved_bytes_forward, k.memory_allocated_bytes_max, k.memory_reserved_bytes_max
from comparison c
left join ranks k on k.run = c.run and k.attempt = c.attempt
order by c.experiment, c.position, k.rank;
)sql";

// Evaluations, checkpoints, samples of devices, and what tells runs of the same strategy apart.
// What older attempts did is what these columns' defaults say.
constexpr const char* kVersion3 = R"sql(
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

// Entry i brings version i to i + 1. Entries are never changed once released.
constexpr std::array kMigrations = {kVersion1, kVersion2, kVersion3};

int64_t user_version(Database& database) {
  return Statement(database, "pragma user_version").value<int64_t>().value();
}

}  // namespace

void migrate(Database& database) {
  constexpr int64_t kCurrent = kMigrations.size();
  if (user_version(database) == kCurrent) return;
  Transaction transaction(database);
  const int64_t found = user_version(database);
  if (found > kCurrent) {
    throw std::runtime_error(database.file().string() + ": schema version " +
                             std::to_string(found) + " was written by a newer fsdp-run; this one " +
                             "reads up to version " + std::to_string(kCurrent) +
                             "; update fsdp-run, or choose another folder with --results");
  }
  for (int64_t version = found; version < kCurrent; ++version) {
    database.execute(kMigrations[static_cast<size_t>(version)]);
  }
  database.execute("pragma user_version = " + std::to_string(kCurrent));
  transaction.commit();
}

}  // namespace fsdp
