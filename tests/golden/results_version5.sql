-- A results.sqlite of schema version 5, as the sqlite3 program dumps it.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE experiments (
  name text primary key,
  title text not null,
  file text not null,
  text text not null,
  profile text not null
, compare text not null default 'loss', source text not null default '');
INSERT INTO experiments VALUES('lab','A lab of version 5','/home/ada/lab.yaml',replace('experiment: lab\ntitle: A lab of version 4\nbase:\n  device: cpu\n  train: {steps: 4}\npoints:\n  - {name: 1 GPU, evaluation: {every_steps: 2, fraction: 0.1}, memory_limit_gib: 1.5, sweep: {repeats: 2}}\n  - {name: 2xFSDP, strategy: {kind: fsdp, ranks: 2, sharding: shard_grad_op}, checkpoint: {every_steps: 2}, precision: bf16_mixed, optimizer.kind: sgd}\n  - {name: largest, strategy: {kind: single}, sweep: {double: {batch.size_per_rank: {from: 4, to: 16}}}}\n  - {name: killed, strategy: {kind: ddp, ranks: 2}}\n  - {name: resumed, checkpoint: {every_steps: 2}}\n  - {name: planned only}\n','\n',char(10)),'','loss','');
CREATE TABLE runs (
  id integer primary key,
  experiment text not null references experiments (name),
  point text not null,
  hash text not null,
  folder text not null,
  position integer not null,
  current integer not null check (current in (0, 1)),
  status text not null,
  reason text not null,
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
  warmup_steps_excluded integer not null, sharding text not null default '', wrap text not null default 'transformer_block', prefetch integer not null default 1, limit_all_gathers integer not null default 1, optimizer text not null default 'adamw', schedule text not null default 'constant', series text not null default '', repeat integer not null default 0, data_digest text not null default '', loss_digest text not null default '', family text not null default '', family_key text not null default '', family_value integer, memory_limit_gib real not null default 0,
  unique (experiment, point, hash)
);
INSERT INTO runs VALUES(1,'lab','1 GPU #1','a90f83e23f6903a7e285998259b9a363','runs/lab/1-GPU-1-a90f83e2',0,1,'finished','','single','none',1,4,1,4,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant','1 GPU',0,'63f2defc1094ed3158b43101c0ace6b3','12e91f2b63ccc82847f119e7e253bf1d','','',NULL,1.5);
INSERT INTO runs VALUES(2,'lab','1 GPU #2','a90f83e23f6903a7e285998259b9a363','runs/lab/1-GPU-2-a90f83e2',1,1,'finished','','single','none',1,4,1,4,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant','1 GPU',1,'63f2defc1094ed3158b43101c0ace6b3','12e91f2b63ccc82847f119e7e253bf1d','','',NULL,1.5);
INSERT INTO runs VALUES(3,'lab','2xFSDP','df1eda3c7ebf1fd70b05bd0bae6ecc4e','runs/lab/2xFSDP-df1eda3c',2,1,'finished','','fsdp','none',2,4,1,8,'bf16_mixed','cpu',256,0,2,'shard_grad_op','transformer_block',1,1,'sgd','constant','2xFSDP',0,'63f2defc1094ed3158b43101c0ace6b3','af7f56721d27ca51746d7299278b09fb','','',NULL,0.0);
INSERT INTO runs VALUES(4,'lab','largest size_per_rank=4','e1e15b6e4d7aaa57d42266e0bb72a918','runs/lab/largest-size_per_rank-4-e1e15b6e',3,1,'finished','','single','none',1,4,1,4,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant','largest size_per_rank=4',0,'63f2defc1094ed3158b43101c0ace6b3','985772ad672a2ce9fec31c84d2cff8bd','7403d0d71164c1cc050df068e4350a4f','batch.size_per_rank',4,0.0);
INSERT INTO runs VALUES(5,'lab','killed','dcbc7065d22e23ccc2d3fd5ca18c88fe','runs/lab/killed-dcbc7065',4,1,'failed','rank 1 killed by signal 9, after step 4','ddp','none',2,4,1,8,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant','killed',0,'63f2defc1094ed3158b43101c0ace6b3','7b686872886aa045f36f2d76fb56fc53','','',NULL,0.0);
INSERT INTO runs VALUES(6,'lab','resumed','a0d90c45d2ed19a9e6098443a6ee1ccf','runs/lab/resumed-a0d90c45',5,1,'finished','','single','none',1,4,1,4,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant','resumed',0,'63f2defc1094ed3158b43101c0ace6b3','985772ad672a2ce9fec31c84d2cff8bd','','',NULL,0.0);
INSERT INTO runs VALUES(7,'lab','planned only','e1e15b6e4d7aaa57d42266e0bb72a918','runs/lab/planned-only-e1e15b6e',6,1,'planned','','single','none',1,4,1,4,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant','planned only',0,'63f2defc1094ed3158b43101c0ace6b3','985772ad672a2ce9fec31c84d2cff8bd','','',NULL,0.0);
INSERT INTO runs VALUES(8,'lab','largest size_per_rank=8','3c0ab8ac4f173cc6ec1b2c7114402b43','runs/lab/largest-size_per_rank-8-3c0ab8ac',3,1,'out_of_memory','rank 0: no room for 3 GiB','single','none',1,8,1,8,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant','largest size_per_rank=8',0,'63f2defc1094ed3158b43101c0ace6b3','7b686872886aa045f36f2d76fb56fc53','7403d0d71164c1cc050df068e4350a4f','batch.size_per_rank',8,0.0);
CREATE TABLE attempts (
  run integer not null references runs (id),
  attempt integer not null,
  status text not null,
  reason text not null,
  reason_rank integer,
  started_unix_ms integer not null,
  ended_unix_ms integer,
  host text not null,
  runner_process_id integer not null, git_commit text not null default '', git_dirty integer, trainer_digest text not null default '', runner_version text not null default '', cpu_name text not null default '', cpu_cores integer not null default 0, memory_total_bytes integer not null default 0, environment text not null default '{}', experiment_text_digest text not null default '', device_kind text not null default '', slurm_job text not null default '', node_list text not null default '',
  primary key (run, attempt)
) without rowid;
INSERT INTO attempts VALUES(1,1,'finished','',NULL,1795289281409,1795289281419,'node1',28730,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2','cpu','','');
INSERT INTO attempts VALUES(2,1,'finished','',NULL,1795289281420,1795289281429,'node1',28730,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2','cpu','','');
INSERT INTO attempts VALUES(3,1,'finished','',NULL,1795289281429,1795289281438,'node1',28730,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2','A GPU 2 GiB','12_0','n[1-2]');
INSERT INTO attempts VALUES(4,1,'finished','',NULL,1795289281439,1795289281447,'node1',28730,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2','cpu','','');
INSERT INTO attempts VALUES(5,1,'failed','rank 1 killed by signal 9, after step 4',1,1795289281465,1795289281473,'node1',28730,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2','cpu','','');
INSERT INTO attempts VALUES(6,1,'time_limit','time limit of the job, after step 3',NULL,1795289281474,1795289906203,'node1',28730,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2','cpu','12_1','n1');
INSERT INTO attempts VALUES(6,2,'finished','',NULL,1795289908112,1795289908134,'node1',22819,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2','cpu','','');
INSERT INTO attempts VALUES(8,1,'out_of_memory','rank 0: no room for 3 GiB',0,1795289281457,1795289281465,'node1',28730,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2','cpu','','');
CREATE TABLE ranks (
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
  memory_reserved_bytes_max integer, resumed_from_step integer, warning text, cuda_version text, nccl_version text, driver_version text, gpu text, device_memory_bytes integer, power_limit_watts real, sm_clock_mhz_max real, other_processes integer,
  primary key (run, attempt, rank),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
INSERT INTO ranks VALUES(1,1,0,7,1795289281417,1795289281417,1,0,'stub',28736,'cpu','stub',1,4,1000,'none','run_finished',1795289281417,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(2,1,0,7,1795289281427,1795289281427,1,0,'stub',28738,'cpu','stub',1,4,1000,'none','run_finished',1795289281427,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(3,1,0,101,1795289281437,1795289281436,2,0,'stub',28740,'cpu','stub',1,4,1000,'none','run_finished',1795289281437,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(3,1,1,5,1795289281436,1795289281436,2,1,'stub',28741,'cpu','stub',1,4,1000,'none','run_finished',1795289281436,0,'',4,10.0,1048576,2097152,4194304,5242880,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(4,1,0,5,1795289281445,1795289281445,1,0,'stub',28743,'cpu','stub',1,4,1000,'none','run_finished',1795289281445,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(5,1,0,5,1795289281472,1795289281472,2,0,'stub',28747,'cpu','stub',1,4,1000,'none','run_finished',1795289281472,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(5,1,1,2,1795289281472,1795289281472,2,1,'stub',28748,'cpu','stub',1,4,1000,'none','none',NULL,NULL,NULL,2,10.0,1048576,2097152,4194304,5242880,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(6,1,0,4,1795289281481,1795289281481,1,0,'stub',28750,'cpu','stub',1,4,1000,'none','none',NULL,NULL,NULL,3,10.0,1048576,2097152,3145728,4194304,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(6,2,0,7,1795289908132,1795289908126,1,0,'stub',22824,'cpu','stub',1,4,1000,'none','run_finished',1795289908132,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'','','','','',NULL,NULL,NULL,NULL);
INSERT INTO ranks VALUES(8,1,0,3,1795289281464,1795289281464,1,0,'stub',28745,'cpu','stub',1,4,1000,'none','run_failed',1795289281464,3,'no room for 3 GiB',2,10.0,1048576,2097152,3145728,4194304,0,'','','','','',NULL,NULL,NULL,NULL);
CREATE TABLE steps (
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
  memory_reserved_bytes_max integer not null, skipped integer not null default 0, gradient_scale real, communication_time_ms real,
  primary key (run, attempt, rank, step),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
INSERT INTO steps VALUES(1,1,0,1,1,1795289281417,5.0,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(1,1,0,2,2,1795289281417,2.5,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(1,1,0,3,4,1795289281417,1.6666666666666667406,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(1,1,0,4,5,1795289281417,1.25,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(2,1,0,1,1,1795289281427,5.0,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(2,1,0,2,2,1795289281427,2.5,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(2,1,0,3,4,1795289281427,1.6666666666666667406,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(2,1,0,4,5,1795289281427,1.25,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(3,1,0,1,1,1795289281436,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(3,1,0,2,2,1795289281436,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(3,1,0,3,4,1795289281437,1.6666666666666667406,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(3,1,0,4,5,1795289281437,1.25,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(3,1,1,1,1,1795289281436,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL,NULL);
INSERT INTO steps VALUES(3,1,1,2,2,1795289281436,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL,NULL);
INSERT INTO steps VALUES(3,1,1,3,3,1795289281436,1.6666666666666667406,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL,NULL);
INSERT INTO steps VALUES(3,1,1,4,4,1795289281436,1.25,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL,NULL);
INSERT INTO steps VALUES(4,1,0,1,1,1795289281445,5.0,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(4,1,0,2,2,1795289281445,2.5,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(4,1,0,3,3,1795289281445,1.6666666666666667406,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(4,1,0,4,4,1795289281445,1.25,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(5,1,0,1,1,1795289281472,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(5,1,0,2,2,1795289281472,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(5,1,0,3,3,1795289281472,1.6666666666666667406,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(5,1,0,4,4,1795289281472,1.25,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(5,1,1,1,1,1795289281472,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL,NULL);
INSERT INTO steps VALUES(5,1,1,2,2,1795289281472,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL,NULL);
INSERT INTO steps VALUES(6,1,0,1,1,1795289281481,5.0,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(6,1,0,2,2,1795289281481,2.5,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(6,1,0,3,4,1795289281481,1.6666666666666667406,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(6,2,0,1,1,1795289908126,5.0,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(6,2,0,2,2,1795289908126,2.5,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(6,2,0,3,4,1795289908126,1.6666666666666667406,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(6,2,0,4,5,1795289908126,1.25,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(8,1,0,1,1,1795289281464,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
INSERT INTO steps VALUES(8,1,0,2,2,1795289281464,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL,NULL);
CREATE TABLE summaries (
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
  start_up_time_ms real, skipped_steps integer, non_finite_steps integer, validation_loss_first real, validation_loss_last real, validation_loss_best real, token_accuracy_last real, checkpoint_write_time_ms_median real, memory_allocated_bytes_forward_max integer, memory_allocated_bytes_forward_min integer, memory_reserved_bytes_forward_max integer, communication_time_ms_median real, gpu_utilization_percent_mean real, cpu_utilization_percent_mean real, energy_joules real,
  primary key (run, attempt),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
INSERT INTO summaries VALUES(1,1,4,10.0,10.0,10.0,100.0,100.0,102400.0,3145728,3145728,4194304,4194304,5.0,1.25,8,-2.0,0,0,3.0,1.5,1.5,0.125,NULL,1048576,1048576,2097152,NULL,NULL,NULL,NULL);
INSERT INTO summaries VALUES(2,1,4,10.0,10.0,10.0,100.0,100.0,102400.0,3145728,3145728,4194304,4194304,5.0,1.25,7,-3.0,0,0,3.0,1.5,1.5,0.125,NULL,1048576,1048576,2097152,NULL,NULL,NULL,NULL);
INSERT INTO summaries VALUES(3,1,4,10.0,10.0,10.0,100.0,100.0,204800.0,4194304,3145728,5242880,4194304,5.0,1.25,8,-3.0,0,0,NULL,NULL,NULL,NULL,1500.0,1048576,1048576,2097152,NULL,NULL,NULL,NULL);
INSERT INTO summaries VALUES(4,1,4,10.0,10.0,10.0,100.0,100.0,102400.0,3145728,3145728,4194304,4194304,5.0,1.25,6,-4.0,0,0,NULL,NULL,NULL,NULL,NULL,1048576,1048576,2097152,NULL,NULL,NULL,NULL);
INSERT INTO summaries VALUES(5,1,2,10.0,10.0,10.0,100.0,100.0,204800.0,4194304,3145728,5242880,4194304,5.0,1.25,8,-3.0,0,0,NULL,NULL,NULL,NULL,NULL,1048576,1048576,2097152,NULL,NULL,NULL,NULL);
INSERT INTO summaries VALUES(6,1,3,10.0,10.0,10.0,100.0,100.0,102400.0,3145728,3145728,4194304,4194304,5.0,1.6666666666666667406,624729,-3.0,0,0,NULL,NULL,NULL,NULL,1500.0,1048576,1048576,2097152,NULL,NULL,NULL,NULL);
INSERT INTO summaries VALUES(6,2,4,10.0,10.0,10.0,100.0,100.0,102400.0,3145728,3145728,4194304,4194304,5.0,1.25,20,4.0,0,0,NULL,NULL,NULL,NULL,1500.0,1048576,1048576,2097152,NULL,NULL,NULL,NULL);
INSERT INTO summaries VALUES(8,1,2,10.0,10.0,10.0,100.0,100.0,204800.0,3145728,3145728,4194304,4194304,5.0,2.5,7,-3.0,0,0,NULL,NULL,NULL,NULL,NULL,1048576,1048576,2097152,NULL,NULL,NULL,NULL);
CREATE TABLE file_digests (
  path text primary key,
  size_bytes integer not null,
  modified_unix_ns integer not null,
  digest text not null
) without rowid;
INSERT INTO file_digests VALUES('/home/ada/games.csv',1048576,1795289281000000000,'63f2defc1094ed3158b43101c0ace6b3');
CREATE TABLE evaluations (
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
INSERT INTO evaluations VALUES(1,1,0,3,1795289281417,2,3.0,0,0.125,100,1.0);
INSERT INTO evaluations VALUES(1,1,0,6,1795289281417,4,1.5,0,0.125,100,1.0);
INSERT INTO evaluations VALUES(2,1,0,3,1795289281427,2,3.0,0,0.125,100,1.0);
INSERT INTO evaluations VALUES(2,1,0,6,1795289281427,4,1.5,0,0.125,100,1.0);
CREATE TABLE checkpoints (
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
INSERT INTO checkpoints VALUES(3,1,0,3,1795289281437,2,'checkpoints/step-2',3145728,1500.0);
INSERT INTO checkpoints VALUES(3,1,0,6,1795289281437,4,'checkpoints/step-4',3145728,1500.0);
INSERT INTO checkpoints VALUES(6,1,0,3,1795289281481,2,'checkpoints/step-2',3145728,1500.0);
INSERT INTO checkpoints VALUES(6,2,0,3,1795289908126,2,'checkpoints/step-2',3145728,1500.0);
INSERT INTO checkpoints VALUES(6,2,0,6,1795289908132,4,'checkpoints/step-4',3145728,1500.0);
CREATE TABLE device_samples (
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
  memory_clock_mhz real, cpu_count integer, memory_free_bytes integer,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
INSERT INTO device_samples VALUES(3,1,0,100,1795289281430,'stub','cpu','A processor',50.0,4294967296,17179869184,NULL,NULL,NULL,NULL,8,12884901888);
INSERT INTO device_samples VALUES(3,1,0,101,1795289281430,'stub','gpu:0','A GPU',75.0,1073741824,2147483648,200.50000000000000001,60.0,1400.0,5000.0,NULL,NULL);
CREATE TABLE experiment_texts (
  digest text primary key,
  text text not null
) without rowid;
INSERT INTO experiment_texts VALUES('6a5baad4f4c793ddc6a1a13d4c721ee2',replace('experiment: lab\ntitle: A lab of version 4\nbase:\n  device: cpu\n  train: {steps: 4}\npoints:\n  - {name: 1 GPU, evaluation: {every_steps: 2, fraction: 0.1}, memory_limit_gib: 1.5, sweep: {repeats: 2}}\n  - {name: 2xFSDP, strategy: {kind: fsdp, ranks: 2, sharding: shard_grad_op}, checkpoint: {every_steps: 2}, precision: bf16_mixed, optimizer.kind: sgd}\n  - {name: largest, strategy: {kind: single}, sweep: {double: {batch.size_per_rank: {from: 4, to: 16}}}}\n  - {name: killed, strategy: {kind: ddp, ranks: 2}}\n  - {name: resumed, checkpoint: {every_steps: 2}}\n  - {name: planned only}\n','\n',char(10)));
CREATE TABLE specs (
  run integer primary key references runs (id),
  text text not null
);
INSERT INTO specs VALUES(1,replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 4\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: 2\n  each_epoch: false\n  data: null\n  fraction: 0.1\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\nwandb:\n  entity: null\n  project: null\n  name: null\n  log_model: false\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 1.5\n','\n',char(10)));
INSERT INTO specs VALUES(2,replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 4\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: 2\n  each_epoch: false\n  data: null\n  fraction: 0.1\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\nwandb:\n  entity: null\n  project: null\n  name: null\n  log_model: false\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 1.5\n','\n',char(10)));
INSERT INTO specs VALUES(3,replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: fsdp\n  ranks: 2\n  sharding: shard_grad_op\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 8\n  gradient_accumulation_steps: 1\nprecision:\n  kind: bf16_mixed\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: sgd\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: 2\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\nwandb:\n  entity: null\n  project: null\n  name: null\n  log_model: false\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)));
INSERT INTO specs VALUES(4,replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 4\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\nwandb:\n  entity: null\n  project: null\n  name: null\n  log_model: false\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)));
INSERT INTO specs VALUES(5,replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: ddp\n  ranks: 2\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 8\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\nwandb:\n  entity: null\n  project: null\n  name: null\n  log_model: false\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)));
INSERT INTO specs VALUES(6,replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 4\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: 2\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\nwandb:\n  entity: null\n  project: null\n  name: null\n  log_model: false\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)));
INSERT INTO specs VALUES(7,replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 4\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\nwandb:\n  entity: null\n  project: null\n  name: null\n  log_model: false\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)));
INSERT INTO specs VALUES(8,replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 8\n  total: 8\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\nwandb:\n  entity: null\n  project: null\n  name: null\n  log_model: false\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)));
CREATE TABLE jobs (
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
INSERT INTO jobs VALUES(1,'lab','6b1f0c2e9d3a4857','12','','per_run','slurm/6b1f0c2e9d3a4857',1795289281300,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2');
INSERT INTO jobs VALUES(2,'lab','0d9be51477aa2c03','13','cluster1','per_run','slurm/0d9be51477aa2c03',1795289908000,'',NULL,'c63d7b4a851b58beaf33f7cce4ca991e','0.1.0','A processor',8,17179869184,'{}','6a5baad4f4c793ddc6a1a13d4c721ee2');
CREATE TABLE job_tasks (
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
INSERT INTO job_tasks VALUES(1,0,3,1,'COMPLETED','','n[1-2]',1795292881000,'A GPU 2 GiB');
INSERT INTO job_tasks VALUES(1,1,6,1,'TIMEOUT','','n1',1795289906000,'cpu');
INSERT INTO job_tasks VALUES(2,0,7,0,'PENDING','Resources','',NULL,'cpu');
CREATE INDEX running_attempts on attempts (run) where status = 'running';
CREATE INDEX current_runs on runs (experiment, position, family_value) where current = 1;
CREATE INDEX runs_of_families on runs (family) where family <> '';
CREATE INDEX job_tasks_of_runs on job_tasks (run, job);
CREATE INDEX open_job_tasks on job_tasks (job) where over = 0;
CREATE VIEW comparison as
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
CREATE VIEW statuses as
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
CREATE VIEW comparison_per_rank as
select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, k.steps, k.step_time_ms_median, k.memory_allocated_bytes_forward,
  k.memory_reserved_bytes_forward, k.memory_allocated_bytes_max, k.memory_reserved_bytes_max
from comparison c
left join ranks k on k.run = c.run and k.attempt = c.attempt
order by c.experiment, c.position, c.family_value, k.rank;
COMMIT;
PRAGMA user_version=5;
