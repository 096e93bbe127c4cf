#pragma once

namespace fsdp {

// Jobs of Slurm, the tasks of which are runs, and what the command status says of nodes. An attempt
// that was cut short hides no result of an earlier one, whoever cut it.
inline constexpr const char* kSchemaVersion5 = R"sql(
drop view comparison_per_rank;
drop view comparison;
drop view statuses;

create table jobs (
  id integer primary key,
  experiment text not null references experiments (name),
  token text not null unique,
  slurm_job text not null,
  cluster text not null,
  mode text not null,
  folder text not null,
  submitted_unix_ms integer not null,
  git_commit text not null,
  git_dirty integer,
  trainer_digest text not null,
  runner_version text not null,
  cpu_name text not null,
  cpu_cores integer not null,
  memory_total_bytes integer not null,
  environment text not null,
  experiment_text_digest text not null
);

create table job_tasks (
  job integer not null references jobs (id),
  task integer not null,
  run integer not null references runs (id),
  over integer not null check (over in (0, 1)),
  state text not null,
  reason text not null,
  node_list text not null,
  ends_unix_ms integer,
  device_kind text not null,
  primary key (job, task)
) without rowid;
create index job_tasks_of_runs on job_tasks (run, job);
create index open_job_tasks on job_tasks (job) where over = 0;

alter table attempts add column slurm_job text not null default '';
alter table attempts add column node_list text not null default '';

alter table device_samples add column cpu_count integer;
alter table device_samples add column memory_free_bytes integer;

create view comparison as
select r.experiment, e.source, r.id as run, substr(r.hash, 1, 8) as hash8, r.position, r.point, r.series,
  r.repeat, r.data_digest, r.loss_digest, r.family, r.family_key, r.family_value,
  r.memory_limit_gib, e.compare,
  r.strategy, r.sharding, r.wrap, r.prefetch, r.limit_all_gathers, r.offload, r.ranks,
  r.batch_size_per_rank, r.gradient_accumulation_steps, r.total_batch, r.precision, r.optimizer,
  r.schedule, r.device, r.sequence_length, r.activation_checkpointing_every,
  r.warmup_steps_excluded, r.folder, a.attempt, r.status, r.reason, a.reason_rank, a.started_unix_ms,
  a.host, a.slurm_job, a.node_list, a.git_commit, a.git_dirty, a.trainer_digest, k.device_name, k.device_memory_bytes,
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
  (select max(attempt) from attempts where run = r.id and status not in
    ('interrupted', 'time_limit', 'preempted', 'node_failed', 'cancelled', 'unknown')),
  (select max(attempt) from attempts where run = r.id))
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
where r.current = 1
order by r.experiment, r.position, r.family_value;

create view statuses as
select r.experiment, r.id as run, r.point, r.status, r.reason, a.attempt, a.started_unix_ms,
  a.ended_unix_ms, a.host, a.runner_process_id, k.resumed_from_step + coalesce(k.steps, 0)
    as steps_done, k.steps_planned, s.step_time_ms_median, s.memory_allocated_bytes_max, s.loss_last,
  case when t.over = 0 or a.attempt is null then j.slurm_job || iif(
      j.slurm_job <> '' and j.mode = 'per_run', '_' || t.task, '')
    else a.slurm_job end as slurm_job,
  iif(t.over = 0 or a.attempt is null, t.node_list, a.node_list) as node_list,
  iif(t.over = 0, t.state, '') as job_state, iif(t.over = 0, t.reason, '') as job_reason,
  iif(t.over = 0, t.ends_unix_ms, null) as job_ends_unix_ms
from runs r
left join attempts a on a.run = r.id and a.attempt = coalesce(
  (select max(attempt) from attempts where run = r.id and status not in
    ('interrupted', 'time_limit', 'preempted', 'node_failed', 'cancelled', 'unknown')),
  (select max(attempt) from attempts where run = r.id))
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join job_tasks t on t.run = r.id and t.job = (select max(job) from job_tasks where run = r.id)
left join jobs j on j.id = t.job
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
