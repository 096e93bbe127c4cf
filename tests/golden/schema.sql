
create table experiments (
  name text primary key,
  title text not null,
  file text not null,
  text text not null,
  profile text not null,
  compare text not null,
  source text not null default ''
);
create table experiment_texts (
  digest text primary key,
  text text not null
) without rowid;

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
  series text not null,
  repeat integer not null,
  data_digest text not null,
  loss_digest text not null,
  family text not null,
  family_key text not null,
  family_value integer,
  spec text not null check (json_valid(spec)),
  unique (experiment, point, hash)
);
create index current_runs on runs (experiment, position, family_value) where current = 1;
create index runs_of_families on runs (family) where family <> '';
create index runs_of_folders on runs (folder);

create table stamps (
  place text primary key,
  stamp text not null
) without rowid;
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
create table attempts (
  run integer not null references runs (id),
  attempt integer not null,
  status text not null,
  reason text not null,
  reason_rank integer,
  ended_unix_ms integer,
  runner_process_id integer not null,
  started_unix_ms integer not null,
  host text not null,
  git_commit text not null,
  git_dirty integer,
  git_untracked integer,
  trainer_digest text not null,
  runner_version text not null,
  cpu_name text not null,
  cpu_cores integer not null,
  memory_total_bytes integer not null,
  environment text not null,
  experiment_text_digest text not null,
  device_kind text not null,
  slurm_job text not null,
  node_list text not null,
  gpus_held real,
  nodes_held real,
  memory_allocated_bytes_predicted integer,
  step_time_ms_predicted real,
  primary key (run, attempt)
) without rowid;
create index running_attempts on attempts (run) where status = 'running';
create table ranks (
  run integer not null,
  attempt integer not null,
  last_sequence integer not null,
  last_event_unix_ms integer,
  started_unix_ms integer,
  end_kind text not null default 'none',
  ended_unix_ms integer,
  exit_code integer,
  reason text,
  skipped_lines integer not null default 0,
  place text,
  rank integer,
  world_size integer,
  local_rank integer,
  host text,
  process_id integer,
  device text,
  device_name text,
  threads integer,
  steps_planned integer,
  parameter_count integer,
  trained_parameter_count integer,
  resumed_from_step integer,
  warning text,
  torch_version text,
  cuda_version text,
  nccl_version text,
  driver_version text,
  compute_capability text,
  gpu text,
  allocator_settings text,
  bound_cpus text,
  device_memory_bytes integer,
  power_limit_watts real,
  sm_clock_mhz_max real,
  other_processes integer,
  memory_allocated_bytes_max integer,
  memory_allocated_bytes_forward integer,
  memory_reserved_bytes_max integer,
  memory_reserved_bytes_forward integer,
  step_time_ms_median real,
  steps integer,
  primary key (run, attempt, rank),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
create table summaries (
  run integer not null,
  attempt integer not null,
  memory_allocated_bytes_max integer,
  memory_allocated_bytes_min integer,
  memory_reserved_bytes_max integer,
  memory_reserved_bytes_min integer,
  memory_allocated_bytes_forward_max integer,
  memory_allocated_bytes_forward_min integer,
  memory_reserved_bytes_forward_max integer,
  step_time_ms_median real,
  step_time_ms_p25 real,
  step_time_ms_p75 real,
  communication_time_ms_median real,
  steps_per_second real,
  micro_batches_per_second real,
  tokens_per_second real,
  tokens_per_second_per_rank real,
  unpadded_tokens_per_second real,
  trained_tokens_per_second real,
  total_time_ms integer,
  start_up_time_ms real,
  gpu_utilization_percent_mean real,
  cpu_utilization_percent_mean real,
  cpu_time_others_percent real,
  run_queue_wait_percent real,
  cpu_cores_used_max real,
  memory_node_bytes_max integer,
  energy_joules real,
  steps integer,
  loss_first real,
  loss_last real,
  skipped_steps integer,
  non_finite_steps integer,
  validation_loss_first real,
  validation_loss_last real,
  validation_loss_best real,
  token_accuracy_last real,
  checkpoint_write_time_ms_median real,
  model_tflops_per_second_per_rank real,
  mfu_percent real,
  hfu_percent real,
  products_forward_ms real,
  products_backward_ms real,
  attention_forward_ms real,
  attention_backward_ms real,
  kernels_forward_ms real,
  kernels_backward_ms real,
  exposed_all_gather_forward_ms real,
  exposed_all_gather_backward_ms real,
  exposed_reduce_scatter_ms real,
  exposed_all_reduce_ms real,
  slower_ranks_ms real,
  copies_ms real,
  conversion_ms real,
  optimizer_ms real,
  clipping_ms real,
  data_ms real,
  other_work_ms real,
  exposed_all_gather_ms real,
  hidden_communication_ms real,
  account_rank integer,
  slowest_rank_extra_ms real,
  primary key (run, attempt),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
create table steps (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  step integer not null,
  loss real,
  non_finite integer not null,
  skipped integer not null,
  step_time_ms real not null,
  suspended integer not null,
  tokens integer not null,
  unpadded_tokens integer not null,
  label_count integer not null,
  learning_rate real not null,
  gradient_norm real,
  gradient_scale real,
  memory_allocated_bytes_forward integer not null,
  memory_reserved_bytes_forward integer not null,
  memory_allocated_bytes_max integer not null,
  memory_reserved_bytes_max integer not null,
  communication_time_ms real,
  model_flops real,
  hardware_flops real,
  primary key (run, attempt, rank, step),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
create table evaluations (
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
  cpu_count integer,
  memory_used_bytes integer,
  memory_free_bytes integer,
  memory_total_bytes integer,
  power_watts real,
  temperature_celsius real,
  sm_clock_mhz real,
  memory_clock_mhz real,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
create table cpu_uses (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  cpus text not null,
  cpu_count integer not null,
  measured_time_ms real not null,
  cpu_time_ms real not null,
  cpus_busy_time_ms real,
  run_queue_wait_time_ms real,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
create table memory_peaks (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  step integer not null,
  phase text not null,
  unit integer,
  memory_allocated_bytes_max integer not null,
  parameters_bytes integer not null,
  whole_bytes integer not null,
  gradients_bytes integer not null,
  optimizer_state_bytes integer not null,
  attention_bytes integer not null,
  mlp_bytes integer not null,
  hidden_bytes integer not null,
  head_bytes integer not null,
  activation_gradients_bytes integer not null,
  batch_bytes integer not null,
  other_bytes integer not null,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
create table step_accounts (
  run integer not null,
  attempt integer not null,
  rank integer not null,
  sequence integer not null,
  time_unix_ms integer not null,
  step integer not null,
  step_time_ms real not null,
  hidden_communication_ms real not null,
  products_forward_ms real not null,
  products_backward_ms real not null,
  attention_forward_ms real not null,
  attention_backward_ms real not null,
  kernels_forward_ms real not null,
  kernels_backward_ms real not null,
  exposed_all_gather_forward_ms real not null,
  exposed_all_gather_backward_ms real not null,
  exposed_reduce_scatter_ms real not null,
  exposed_all_reduce_ms real not null,
  slower_ranks_ms real not null,
  copies_ms real not null,
  conversion_ms real not null,
  optimizer_ms real not null,
  clipping_ms real not null,
  data_ms real not null,
  other_work_ms real not null,
  primary key (run, attempt, rank, step),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
create table jobs (
  id integer not null,
  experiment text not null,
  token text not null,
  slurm_job text not null,
  cluster text not null,
  mode text not null,
  folder text not null,
  submitted_unix_ms integer not null,
  primary key (id),
  unique (token),
  foreign key (experiment) references experiments (name)
);
create table job_tasks (
  job integer not null,
  task integer not null,
  run integer not null,
  over integer not null,
  state text not null,
  reason text not null,
  node_list text not null,
  ends_unix_ms integer,
  device_kind text not null,
  primary key (job, task),
  check (over in (0, 1)),
  foreign key (job) references jobs (id),
  foreign key (run) references runs (id)
) without rowid;
create index job_tasks_of_runs on job_tasks (run, job);
create index open_job_tasks on job_tasks (job) where over = 0;

create view shown_attempts as
select r.id as run, coalesce(
  (select max(attempt) from attempts where run = r.id and status not in ('interrupted', 'time_limit', 'preempted', 'node_failed', 'cancelled', 'unknown')),
  (select max(attempt) from attempts where run = r.id)) as attempt
from runs r;

create view attempt_times as
select a.run, a.attempt, max(0, coalesce(a.ended_unix_ms - a.started_unix_ms, s.total_time_ms, 0))
  as time_ms, a.gpus_held, a.nodes_held
from attempts a left join summaries s on s.run = a.run and s.attempt = a.attempt;

create view comparison as
select r.experiment, e.source, r.id as run, substr(r.hash, 1, 8) as hash8, r.position, r.point,
  r.series, r.repeat, r.data_digest, r.loss_digest, r.family, r.family_key, r.family_value,
  e.compare, r.current, r.spec, r.folder, a.attempt, r.status, r.reason, a.reason_rank,
  a.started_unix_ms, a.host, a.slurm_job, a.node_list, a.git_commit, a.git_dirty,
  a.git_untracked, a.experiment_text_digest, a.runner_version, a.trainer_digest, a.cpu_name,
  k.device_name, k.device_memory_bytes, k.threads, k.parameter_count, k.trained_parameter_count,
  k.torch_version, k.cuda_version, k.driver_version, k.steps_planned, k.resumed_from_step,
  (select max(other_processes) from ranks where run = a.run and attempt = a.attempt)
    as other_processes,
  (select host from ranks where run = a.run and attempt = a.attempt and rank = s.account_rank)
    as account_host, a.memory_allocated_bytes_predicted,
  a.step_time_ms_predicted,
  (select coalesce(sum(skipped_lines), 0) from ranks where run = a.run and attempt = a.attempt)
    as skipped_lines,
  s.memory_allocated_bytes_max, s.memory_allocated_bytes_min, s.memory_reserved_bytes_max, s.memory_reserved_bytes_min, s.memory_allocated_bytes_forward_max, s.memory_allocated_bytes_forward_min, s.memory_reserved_bytes_forward_max, s.step_time_ms_median, s.step_time_ms_p25, s.step_time_ms_p75, s.communication_time_ms_median, s.steps_per_second, s.micro_batches_per_second, s.tokens_per_second, s.tokens_per_second_per_rank, s.unpadded_tokens_per_second, s.trained_tokens_per_second, s.total_time_ms, s.start_up_time_ms, s.gpu_utilization_percent_mean, s.cpu_utilization_percent_mean, s.cpu_time_others_percent, s.run_queue_wait_percent, s.cpu_cores_used_max, s.memory_node_bytes_max, s.energy_joules, s.steps, s.loss_first, s.loss_last, s.skipped_steps, s.non_finite_steps, s.validation_loss_first, s.validation_loss_last, s.validation_loss_best, s.token_accuracy_last, s.checkpoint_write_time_ms_median, s.model_tflops_per_second_per_rank, s.mfu_percent, s.hfu_percent, s.products_forward_ms, s.products_backward_ms, s.attention_forward_ms, s.attention_backward_ms, s.kernels_forward_ms, s.kernels_backward_ms, s.exposed_all_gather_forward_ms, s.exposed_all_gather_backward_ms, s.exposed_reduce_scatter_ms, s.exposed_all_reduce_ms, s.slower_ranks_ms, s.copies_ms, s.conversion_ms, s.optimizer_ms, s.clipping_ms, s.data_ms, s.other_work_ms, s.exposed_all_gather_ms, s.hidden_communication_ms, s.account_rank, s.slowest_rank_extra_ms
from runs r
join experiments e on e.name = r.experiment
left join attempts a on a.run = r.id
  and a.attempt = (select attempt from shown_attempts where run = r.id)
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
where r.current = 1
order by r.experiment, r.position, r.family_value;

create view comparison_per_rank as
select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, k.memory_allocated_bytes_max, k.memory_allocated_bytes_forward, k.memory_reserved_bytes_max, k.memory_reserved_bytes_forward, k.step_time_ms_median, k.steps
from comparison c
left join ranks k on k.run = c.run and k.attempt = c.attempt
order by c.experiment, c.position, c.family_value, k.rank;

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
left join attempts a on a.run = r.id
  and a.attempt = (select attempt from shown_attempts where run = r.id)
left join ranks k on k.run = a.run and k.attempt = a.attempt and k.rank = 0
left join summaries s on s.run = a.run and s.attempt = a.attempt
left join job_tasks t on t.run = r.id and t.job = (select max(job) from job_tasks where run = r.id)
left join jobs j on j.id = t.job
where r.current = 1
order by r.experiment, r.position, r.family_value;
