-- A normal sweep of experiments/lab.yaml on two cores, as the store holds it. Only rows: the tests
-- put them into a database of the current schema. No warning belongs below its table.
insert into experiments (name, title, compare, file, text, profile)
values ('lab', 'One fine-tuning job on 1 and 4 GPUs - DDP, FSDP, a larger batch, optimizer offload',
  'throughput', '/home/you/experiments/lab.yaml', '', 'cpu');
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (1, 'lab', '1 GPU', '8e9e00cec2fc7839f692caae9433ad0e', 'runs/lab/1-GPU-8e9e00ce', 0, 1,
  'finished', '', '1 GPU', 0, '63f2defc1094ed3158b43101c0ace6b3',
  'a6ef7bf1a252f300f6bf74261886489c',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "single", "offload": "none", "ranks": 1}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0.0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 4}, "precision": {"kind": "fp32"}, "device": "cpu", "data": {"sequence_length": 128}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, cpu_name, cpu_cores, runner_version,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (1, 1, 'finished', '', 1795000000000, 1795000009000, 'node1', 100,
  '65fe985a0c0ffee0c0ffee0c0ffee0c0ffee0c0f', 0, '5a1e5d1ce0ddba11', 'AMD EPYC', 2, '', 0, '{}', '',
  '', '', '');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (0, 49, 1, 0, 'cpu', 'AMD EPYC', 2, 48, 6565536, '2.11.0', 'run_finished', 48, 130.3739385,
  121388068, 225873920, 131661092, 225873920, 1, 1, 'node1');
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min, loss_first,
  loss_last, total_time_ms, start_up_time_ms, memory_allocated_bytes_forward_max,
  memory_allocated_bytes_forward_min, memory_reserved_bytes_forward_max)
values (1, 1, 48, 130.3739385, 129.15589725, 131.83221400000002, 7.670244617178608,
  7.670244617178608, 3927.1652439954473, 131661092, 131661092, 225873920, 225873920,
  6.9883527755737305, 5.465518474578857, 6714, 300.858018, 121388068, 121388068, 225873920);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (2, 'lab', '4xDDP', '2b1f040b74dbd82644308c00cade9f6a', 'runs/lab/4xDDP-2b1f040b', 1, 1,
  'finished', '', '4xDDP', 0, '63f2defc1094ed3158b43101c0ace6b3',
  'f0bfe108f43e80e14b152c0ceea90bc5',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "ddp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0.0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "fp32"}, "device": "cpu", "data": {"sequence_length": 128}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, cpu_name, cpu_cores, runner_version,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (2, 1, 'finished', '', 1795000060000, 1795000069000, 'node1', 100,
  '65fe985a0c0ffee0c0ffee0c0ffee0c0ffee0c0f', 0, '5a1e5d1ce0ddba11', 'AMD EPYC', 2, '', 0, '{}', '',
  '', '', '');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (0, 13, 4, 0, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 576.537233,
  121388068, 233488384, 131661092, 233492480, 2, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (1, 13, 4, 1, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 576.086192,
  121388068, 232026112, 131661092, 232030208, 2, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (2, 13, 4, 2, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 573.776579,
  121388068, 237961216, 131661092, 237965312, 2, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (3, 13, 4, 3, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 574.4087995,
  121388068, 231788544, 131661092, 232673280, 2, 1, 'node1');
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min, loss_first,
  loss_last, total_time_ms, start_up_time_ms, memory_allocated_bytes_forward_max,
  memory_allocated_bytes_forward_min, memory_reserved_bytes_forward_max)
values (2, 1, 12, 577.2376770000001, 575.22946675, 597.0385542500001, 1.7323886500222332,
  1.7323886500222332, 3547.9319552455336, 131661092, 131661092, 237965312, 232030208,
  6.98187255859375, 6.227645397186279, 8306, 1047.8429099999998, 121388068, 121388068, 237961216);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (3, 'lab', '4xFSDP', '328872bdc83f7b2257067bfa1acf4255', 'runs/lab/4xFSDP-328872bd', 2, 1,
  'finished', '', '4xFSDP', 0, '63f2defc1094ed3158b43101c0ace6b3',
  'f0bfe108f43e80e14b152c0ceea90bc5',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0.0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "fp32"}, "device": "cpu", "data": {"sequence_length": 128}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, cpu_name, cpu_cores, runner_version,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (3, 1, 'finished', '', 1795000120000, 1795000129000, 'node1', 100,
  '65fe985a0c0ffee0c0ffee0c0ffee0c0ffee0c0f', 0, '5a1e5d1ce0ddba11', 'AMD EPYC', 2, '', 0, '{}', '',
  '', '', '');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (0, 13, 4, 0, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 595.7903335,
  67463012, 205463552, 80833956, 205463552, 3, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (1, 13, 4, 1, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 594.6789755,
  67463012, 185872384, 80833956, 185872384, 3, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (2, 13, 4, 2, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 595.376955,
  67463012, 187826176, 80833956, 187826176, 3, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (3, 13, 4, 3, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 593.081846,
  67463012, 189124608, 80833956, 189124608, 3, 1, 'node1');
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min, loss_first,
  loss_last, total_time_ms, start_up_time_ms, memory_allocated_bytes_forward_max,
  memory_allocated_bytes_forward_min, memory_reserved_bytes_forward_max)
values (3, 1, 12, 597.670442, 583.7642845, 603.168376, 1.6731628833001584, 1.6731628833001584,
  3426.6375849987244, 80833956, 80833956, 205463552, 185872384, 6.98187255859375, 6.227644920349121,
  8361, 1128.143932, 67463012, 67463012, 205463552);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (4, 'lab', 'FSDP batch 8', 'c3c268d4edbf7fcee1581f15fd709123',
  'runs/lab/FSDP-batch-8-c3c268d4', 3, 1, 'finished', '', 'FSDP batch 8', 0,
  '63f2defc1094ed3158b43101c0ace6b3', '9b71227b8af9ac326dc4e27969e2c336',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "none", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0.0, "batch": {"size_per_rank": 8, "gradient_accumulation_steps": 1, "total": 32}, "precision": {"kind": "fp32"}, "device": "cpu", "data": {"sequence_length": 128}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, cpu_name, cpu_cores, runner_version,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (4, 1, 'finished', '', 1795000180000, 1795000189000, 'node1', 100,
  '65fe985a0c0ffee0c0ffee0c0ffee0c0ffee0c0f', 0, '5a1e5d1ce0ddba11', 'AMD EPYC', 2, '', 0, '{}', '',
  '', '', '');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (0, 7, 4, 0, 'cpu', 'AMD EPYC', 1, 6, 6565536, '2.11.0', 'run_finished', 6,
  1068.7398210000001, 108859236, 239546368, 128519588, 240726016, 4, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (1, 7, 4, 1, 'cpu', 'AMD EPYC', 1, 6, 6565536, '2.11.0', 'run_finished', 6, 1068.361244,
  108859236, 245743616, 128519588, 245743616, 4, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (2, 7, 4, 2, 'cpu', 'AMD EPYC', 1, 6, 6565536, '2.11.0', 'run_finished', 6,
  1069.3438915000002, 108859236, 228446208, 128519588, 228446208, 4, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (3, 7, 4, 3, 'cpu', 'AMD EPYC', 1, 6, 6565536, '2.11.0', 'run_finished', 6,
  1069.3462104999999, 108859236, 245747712, 128519588, 245747712, 4, 1, 'node1');
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min, loss_first,
  loss_last, total_time_ms, start_up_time_ms, memory_allocated_bytes_forward_max,
  memory_allocated_bytes_forward_min, memory_reserved_bytes_forward_max)
values (4, 1, 6, 1070.7723605, 1067.71389725, 1080.0907555000001, 0.9339053162831428,
  0.9339053162831428, 3825.276175495753, 128519588, 128519588, 245747712, 228446208,
  6.982750415802002, 6.484938621520996, 8120, 1175.15989, 108859236, 108859236, 245747712);
insert into runs (id, experiment, point, hash, folder, position, current, status, reason, series,
  repeat, data_digest, loss_digest, spec, family, family_key)
values (5, 'lab', 'offload', 'bda2330def995a27235955c738eb9cf8', 'runs/lab/offload-bda2330d', 4, 1,
  'finished', '', 'offload', 0, '63f2defc1094ed3158b43101c0ace6b3',
  'f0bfe108f43e80e14b152c0ceea90bc5',
  '{"strategy": {"sharding": "full_shard", "wrap": {"policy": "transformer_block"}, "prefetch": 1, "limit_all_gathers": true, "kind": "fsdp", "offload": "optimizer", "ranks": 4}, "optimizer": {"kind": "adamw"}, "schedule": {"kind": "constant"}, "memory_limit_gib": 0.0, "batch": {"size_per_rank": 4, "gradient_accumulation_steps": 1, "total": 16}, "precision": {"kind": "fp32"}, "device": "cpu", "data": {"sequence_length": 128}, "activation_checkpointing": {"every": 0}, "train": {"warmup_steps_excluded": 2}}',
  '', '');
insert into attempts (run, attempt, status, reason, started_unix_ms, ended_unix_ms, host,
  runner_process_id, git_commit, git_dirty, trainer_digest, cpu_name, cpu_cores, runner_version,
  memory_total_bytes, environment, experiment_text_digest, device_kind, slurm_job, node_list)
values (5, 1, 'finished', '', 1795000240000, 1795000249000, 'node1', 100,
  '65fe985a0c0ffee0c0ffee0c0ffee0c0ffee0c0f', 0, '5a1e5d1ce0ddba11', 'AMD EPYC', 2, '', 0, '{}', '',
  '', '', '');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (0, 13, 4, 0, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 595.4203845,
  80594148, 198676480, 93965092, 198676480, 5, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (1, 13, 4, 1, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 596.7277485,
  80594148, 193810432, 93965092, 193810432, 5, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (2, 13, 4, 2, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12,
  595.8856049999999, 80594148, 206118912, 93965092, 206118912, 5, 1, 'node1');
insert into ranks (rank, last_sequence, world_size, local_rank, device, device_name, threads,
  steps_planned, parameter_count, torch_version, end_kind, steps, step_time_ms_median,
  memory_allocated_bytes_forward, memory_reserved_bytes_forward, memory_allocated_bytes_max,
  memory_reserved_bytes_max, run, attempt, host)
values (3, 13, 4, 3, 'cpu', 'AMD EPYC', 1, 12, 6565536, '2.11.0', 'run_finished', 12, 594.9131625,
  80594148, 208982016, 93965092, 216113152, 5, 1, 'node1');
insert into summaries (run, attempt, steps, step_time_ms_median, step_time_ms_p25, step_time_ms_p75,
  steps_per_second, micro_batches_per_second, tokens_per_second, memory_allocated_bytes_max,
  memory_allocated_bytes_min, memory_reserved_bytes_max, memory_reserved_bytes_min, loss_first,
  loss_last, total_time_ms, start_up_time_ms, memory_allocated_bytes_forward_max,
  memory_allocated_bytes_forward_min, memory_reserved_bytes_forward_max)
values (5, 1, 12, 597.5669435, 588.128337, 599.5710055, 1.67345267484663, 1.67345267484663,
  3427.2310780858984, 93965092, 93965092, 216113152, 193810432, 6.98187255859375, 6.227644920349121,
  8370, 1084.0848959999998, 80594148, 80594148, 208982016);

update summaries set tokens_per_second_per_rank = tokens_per_second /
  (select spec ->> '$.strategy.ranks' from runs where id = run);
