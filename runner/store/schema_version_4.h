#pragma once

namespace fsdp {

// Repeats, families of doubled keys, where a result comes from, and figures of devices and
// communication. Specifications move to a table of their own: they are long, and no list reads
// them.
inline constexpr const char* kSchemaVersion4 = R"sql(
drop view comparison_per_rank;
drop view comparison;

alter table experiments add column compare text not null default 'loss';
alter table experiments add column source text not null default '';

create table experiment_texts (
  digest text primary key,
  text text not null
) without rowid;

create table specs (
  run integer primary key references runs (id),
  text text not null
);
insert into specs select id, spec from runs;

alter table runs add column series text not null default '';
update runs set series = point;
alter table runs add column repeat integer not null default 0;
alter table runs add column data_digest text not null default '';
alter table runs add column loss_digest text not null default '';
alter table runs add column family text not null default '';
alter table runs add column family_key text not null default '';
alter table runs add column family_value integer;
alter table runs add column memory_limit_gib real not null default 0;
update runs set memory_limit_gib = cast(
  substr(spec, instr(spec, char(10) || 'memory_limit_gib: ') + length('.memory_limit_gib: ')) as real)
where instr(spec, char(10) || 'memory_limit_gib: ') > 0;
alter table runs drop column spec;
create index current_runs on runs (experiment, position, family_value) where current = 1;
create index runs_of_families on runs (family) where family <> '';

alter table attempts add column git_commit text not null default '';
alter table attempts add column git_dirty integer;
alter table attempts add column trainer_digest text not null default '';
alter table attempts add column runner_version text not null default '';
alter table attempts add column cpu_name text not null default '';
alter table attempts add column cpu_cores integer not null default 0;
alter table attempts add column memory_total_bytes integer not null default 0;
alter table attempts add column environment text not null default '{}';
alter table attempts add column experiment_text_digest text not null default '';
alter table attempts add column device_kind text not null default '';

alter table ranks add column cuda_version text;
alter table ranks add column nccl_version text;
alter table ranks add column driver_version text;
alter table ranks add column gpu text;
alter table ranks add column device_memory_bytes integer;
alter table ranks add column power_limit_watts real;
alter table ranks add column sm_clock_mhz_max real;
alter table ranks add column other_processes integer;

alter table steps add column communication_time_ms real;

alter table summaries add column memory_allocated_bytes_forward_max integer;
alter table summaries add column memory_allocated_bytes_forward_min integer;
alter table summaries add column memory_reserved_bytes_forward_max integer;
update summaries set (memory_allocated_bytes_forward_max, memory_allocated_bytes_forward_min,
    memory_reserved_bytes_forward_max) = (
  select max(memory_allocated_bytes_forward), min(memory_allocated_bytes_forward),
    max(memory_reserved_bytes_forward)
  from ranks where run = summaries.run and attempt = summaries.attempt);
alter table summaries add column communication_time_ms_median real;
alter table summaries add column gpu_utilization_percent_mean real;
alter table summaries add column cpu_utilization_percent_mean real;
update summaries set cpu_utilization_percent_mean = (
  select avg(utilization_percent) from device_samples
  where run = summaries.run and attempt = summaries.attempt and device = 'cpu');
alter table summaries add column energy_joules real;

create view comparison as
select r.experiment, e.source, r.id as run, substr(r.hash, 1, 8) as hash8, r.position, r.point, r.series,
  r.repeat, r.data_digest, r.loss_digest, r.family, r.family_key, r.family_value,
  r.memory_limit_gib, e.compare,
  r.strategy, r.sharding, r.wrap, r.prefetch, r.limit_all_gathers, r.offload, r.ranks,
  r.batch_size_per_rank, r.gradient_accumulation_steps, r.total_batch, r.precision, r.optimizer,
  r.schedule, r.device, r.sequence_length, r.activation_checkpointing_every,
  r.warmup_steps_excluded, r.folder, a.attempt, r.status, r.reason, a.reason_rank, a.started_unix_ms,
  a.host, a.git_commit, a.git_dirty, a.trainer_digest, k.device_name, k.device_memory_bytes,
  k.torch_version, k.cuda_version, k.driver_version, k.steps_planned, k.resumed_from_step,
  (select max(other_processes) from ranks where run = a.run and attempt = a.attempt)
    as other_processes,
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
  (select max(attempt) from attempts where run = r.id and status not in ('interrupted')),
  (select max(attempt) from attempts where run = r.id))
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
where r.current = 1
order by r.experiment, r.position, r.family_value;

create view statuses as
select r.experiment, r.id as run, r.point, r.status, r.reason, a.attempt, a.started_unix_ms,
  a.ended_unix_ms, a.host, a.runner_process_id, k.resumed_from_step + coalesce(k.steps, 0)
    as steps_done, k.steps_planned, s.step_time_ms_median, s.memory_allocated_bytes_max, s.loss_last
from runs r
left join attempts a on a.run = r.id and a.attempt = coalesce(
  (select max(attempt) from attempts where run = r.id and status not in ('interrupted')),
  (select max(attempt) from attempts where run = r.id))
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
left join summaries s on s.run = a.run and s.attempt = a.attempt
where r.current = 1
order by r.experiment, r.position, r.family_value;

create view comparison_per_rank as
select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, k.steps, k.step_time_ms_median, k.memory_allocated_bytes_forward,
  k.memory_reserved_bytes_forward, k.memory_allocated_bytes_max, k.memory_reserved_bytes_max
from comparison c
left join ranks k on k.run = c.run and k.attempt = c.attempt
order by c.experiment, c.position, c.family_value, k.rank;
)sql";

}  // namespace fsdp
