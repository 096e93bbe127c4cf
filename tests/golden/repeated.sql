-- Repeats, a run that failed, one that does not fit, another commit, and a GPU that was not alone.
-- Only rows: the tests put them into a database of the current schema.
insert into experiments (name, title, file, text, profile, compare)
values ('repeated', 'DDP and FSDP, five times each', '/home/you/repeated.yaml', '', '', 'loss');
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (1, 'repeated', 'DDP #1', 'abc00000000000000000000000000001', 'runs/repeated/1', 0, 1,
  'finished', '', 'DDP', 0, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "ddp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (1, 1, 'finished', '', 1795100060000, 1795100100000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (1, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (1, 1, 100, 205.233, 202.155, 209.338, 4.872510756067494, 4.872510756067494,
  39915.60811370491, 76000000000, 75000000000, 82000000000, 81000000000, 72000000000, 2.5, 1.5, 0,
  0, 38010, 15000.0, 61.57, 96.5, 41001.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (2, 'repeated', 'DDP #2', 'abc00000000000000000000000000002', 'runs/repeated/2', 1, 1,
  'finished', '', 'DDP', 1, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "ddp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (2, 1, 'finished', '', 1795100120000, 1795100160000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (2, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (2, 1, 100, 208.075, 204.954, 212.236, 4.805959389643157, 4.805959389643157,
  39370.419319956745, 76000000000, 75000000000, 82000000000, 81000000000, 72000000000, 2.5, 1.5, 0,
  0, 38020, 15000.0, 62.422, 96.5, 41002.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (3, 'repeated', 'DDP #3', 'abc00000000000000000000000000003', 'runs/repeated/3', 2, 1,
  'finished', '', 'DDP', 2, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "ddp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (3, 1, 'finished', '', 1795100180000, 1795100220000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (3, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (3, 1, 100, 202.709, 199.668, 206.763, 4.9331800758723094, 4.9331800758723094,
  40412.61118154596, 76000000000, 75000000000, 82000000000, 81000000000, 72000000000, 2.5, 1.5, 0,
  0, 38030, 15000.0, 60.813, 96.5, 41003.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (4, 'repeated', 'DDP #4', 'abc00000000000000000000000000004', 'runs/repeated/4', 3, 1,
  'finished', '', 'DDP', 3, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "ddp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (4, 1, 'finished', '', 1795100240000, 1795100280000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (4, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (4, 1, 100, 207.441, 204.329, 211.59, 4.820647798651183, 4.820647798651183,
  39490.74676655049, 76000000000, 75000000000, 82000000000, 81000000000, 72000000000, 2.5, 1.5, 0,
  0, 38040, 15000.0, 62.232, 96.5, 41004.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (5, 'repeated', 'DDP #5', 'abc00000000000000000000000000005', 'runs/repeated/5', 4, 1,
  'finished', '', 'DDP', 4, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "ddp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (5, 1, 'finished', '', 1795100300000, 1795100340000, 'node1', 100, 'feedface0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (5, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (5, 1, 100, 204.362, 201.297, 208.449, 4.893277615212222, 4.893277615212222,
  40085.73022381852, 76000000000, 75000000000, 82000000000, 81000000000, 72000000000, 2.5, 1.5, 0,
  0, 38050, 15000.0, 61.309, 96.5, 41005.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (6, 'repeated', 'FSDP #1', 'abc00000000000000000000000000006', 'runs/repeated/6', 5, 1,
  'finished', '', 'FSDP', 0, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (6, 1, 'finished', '', 1795100360000, 1795100400000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (6, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (6, 1, 100, 197.379, 194.418, 201.327, 5.0663951078888845, 5.0663951078888845,
  41503.90872382574, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504, 0,
  0, 38060, 15000.0, 59.214, 96.5, 41006.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (7, 'repeated', 'FSDP #2', 'abc00000000000000000000000000007', 'runs/repeated/7', 6, 1,
  'finished', '', 'FSDP', 1, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (7, 1, 'finished', '', 1795100420000, 1795100460000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (7, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 1);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (7, 1, 100, 202.514, 199.476, 206.564, 4.93793021717017, 4.93793021717017,
  40451.524339058036, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504,
  0, 0, 38070, 15000.0, 60.754, 96.5, 41007.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (8, 'repeated', 'FSDP #3', 'abc00000000000000000000000000008', 'runs/repeated/8', 7, 1,
  'finished', '', 'FSDP', 2, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (8, 1, 'finished', '', 1795100480000, 1795100520000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (8, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (8, 1, 100, 198.374, 195.398, 202.341, 5.040983193362034, 5.040983193362034,
  41295.73432002178, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504, 0,
  0, 38080, 15000.0, 59.512, 96.5, 41008.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (9, 'repeated', 'FSDP #4', 'abc00000000000000000000000000009', 'runs/repeated/9', 8, 1,
  'finished', '', 'FSDP', 3, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (9, 1, 'finished', '', 1795100540000, 1795100580000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (9, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (9, 1, 100, 197.898, 194.93, 201.856, 5.053108166833419, 5.053108166833419,
  41395.06210269937, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504, 0,
  0, 38090, 15000.0, 59.369, 96.5, 41009.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (10, 'repeated', 'FSDP #5', 'abc0000000000000000000000000000a', 'runs/repeated/10', 9, 1,
  'finished', '', 'FSDP', 4, '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (10, 1, 'finished', '', 1795100600000, 1795100640000, 'node1', 100, 'feedface0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (10, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (10, 1, 100, 199.733, 196.737, 203.728, 5.006683923037254, 5.006683923037254,
  41014.75469752119, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504, 0,
  0, 38100, 15000.0, 59.92, 96.5, 41010.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (11, 'repeated', 'FSDP, no prefetch_ #1', 'abc0000000000000000000000000000b',
  'runs/repeated/11', 10, 1, 'finished', '', 'FSDP, no prefetch_', 0, '63f2defc1094ed31',
  'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 0, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (11, 1, 'finished', '', 1795100660000, 1795100700000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (11, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (11, 1, 100, 235.137, 231.61, 239.84, 4.252839833799019, 4.252839833799019,
  34839.26391848156, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504, 0,
  0, 38110, 15000.0, 70.541, 96.5, 41011.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (12, 'repeated', 'FSDP, no prefetch_ #2', 'abc0000000000000000000000000000c',
  'runs/repeated/12', 11, 1, 'finished', '', 'FSDP, no prefetch_', 1, '63f2defc1094ed31',
  'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 0, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (12, 1, 'finished', '', 1795100720000, 1795100760000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (12, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (12, 1, 100, 231.914, 228.435, 236.552, 4.311943220331675, 4.311943220331675,
  35323.43886095708, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504, 0,
  0, 38120, 15000.0, 69.574, 96.5, 41012.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (13, 'repeated', 'FSDP, no prefetch_ #3', 'abc0000000000000000000000000000d',
  'runs/repeated/13', 12, 1, 'finished', '', 'FSDP, no prefetch_', 2, '63f2defc1094ed31',
  'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 0, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (13, 1, 'finished', '', 1795100780000, 1795100820000, 'node1', 100, '65fe985a0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (13, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (13, 1, 100, 233.637, 230.132, 238.31, 4.280143984043623, 4.280143984043623,
  35062.93951728536, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504, 0,
  0, 38130, 15000.0, 70.091, 96.5, 41013.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (14, 'repeated', 'FSDP, no prefetch_ #4', 'abc0000000000000000000000000000e',
  'runs/repeated/14', 13, 1, 'failed', 'rank 1 killed by signal 9', 'FSDP, no prefetch_', 3,
  '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 0, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, reason_rank, started_unix_ms, ended_unix_ms,
  host, runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name,
  cpu_cores, memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job,
  node_list)
values (14, 1, 'failed', 'rank 1 killed by signal 9', 1, 1795100840000, 1795100880000, 'node1', 100,
  '65fe985a0c0ffee0', 0, '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (14, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (14, 1, 40, 229.289, 225.85, 233.875, 4.361308218013075, 4.361308218013075,
  35727.83692196311, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504, 0,
  0, 38140, 15000.0, 68.787, 96.5, 41014.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (15, 'repeated', 'FSDP, no prefetch_ #5', 'abc0000000000000000000000000000f',
  'runs/repeated/15', 14, 1, 'finished', '', 'FSDP, no prefetch_', 4, '63f2defc1094ed31',
  'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 0, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name, cpu_cores,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (15, 1, 'finished', '', 1795100900000, 1795100940000, 'node1', 100, 'feedface0c0ffee0', 0,
  '5a1e5d1ce0ddba11', '', '', 0, 0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (15, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min,
  memory_allocated_bytes_forward_max, loss_first, loss_last, skipped_steps, non_finite_steps,
  total_time_ms, start_up_time_ms, communication_time_ms_median, gpu_utilization_percent_mean,
  energy_joules)
values (15, 1, 100, 230.979, 227.514, 235.599, 4.329397910632568, 4.329397910632568,
  35466.427683901995, 40000000000, 39000000000, 46000000000, 45000000000, 36000000000, 2.5, 1.504,
  0, 0, 38150, 15000.0, 69.294, 96.5, 41015.0);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (16, 'repeated', 'too large #1', 'abc00000000000000000000000000010', 'runs/repeated/16', 15,
  1, 'out_of_memory', 'rank 0: 79.0 GiB are all in use, 1.2 GiB asked for', 'too large', 0,
  '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, reason_rank, started_unix_ms, ended_unix_ms,
  host, runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name,
  cpu_cores, memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job,
  node_list)
values (16, 1, 'out_of_memory', 'rank 0: 79.0 GiB are all in use, 1.2 GiB asked for', 0,
  1795100960000, 1795101000000, 'node1', 100, '65fe985a0c0ffee0', 0, '5a1e5d1ce0ddba11', '', '', 0,
  0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (16, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, memory_allocated_bytes_max, memory_allocated_bytes_min,
  memory_reserved_bytes_max, memory_reserved_bytes_min, total_time_ms)
values (16, 1, 0, 84825604096, 84825604096, 85362475008, 85362475008, 30000);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (17, 'repeated', 'too large #2', 'abc00000000000000000000000000011', 'runs/repeated/17', 16,
  1, 'out_of_memory', 'rank 0: 79.0 GiB are all in use, 1.2 GiB asked for', 'too large', 1,
  '63f2defc1094ed31', 'a6ef7bf1a252f300',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "bf16_true"}, "device": "cuda", "data": {"sequence_length": 512}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, reason_rank, started_unix_ms, ended_unix_ms,
  host, runner_process_id, git_commit, git_dirty, trainer_digest, runner_version, cpu_name,
  cpu_cores, memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job,
  node_list)
values (17, 1, 'out_of_memory', 'rank 0: 79.0 GiB are all in use, 1.2 GiB asked for', 0,
  1795101020000, 1795101060000, 'node1', 100, '65fe985a0c0ffee0', 0, '5a1e5d1ce0ddba11', '', '', 0,
  0, '{}', '', '', '', '');
insert into ranks (run, attempt, rank, last_sequence, world_size, host, device, device_name,
  device_memory_bytes, steps_planned, resumed_from_step, torch_version, cuda_version,
  driver_version, end_kind, other_processes)
values (17, 1, 0, 102, 4, 'node1', 'cuda:0', 'A GPU', 85899345920, 100, 0, '2.11.0', '13.0',
  '580.82', 'run_finished', 0);
insert into summaries (run, attempt, steps, memory_allocated_bytes_max, memory_allocated_bytes_min,
  memory_reserved_bytes_max, memory_reserved_bytes_min, total_time_ms)
values (17, 1, 0, 84825604096, 84825604096, 85362475008, 85362475008, 30000);
