-- A results.sqlite of schema version 3, as the sqlite3 program dumps it.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE experiments (
  name text primary key,
  title text not null,
  file text not null,
  text text not null,
  profile text not null
);
INSERT INTO experiments VALUES('lab','A lab of version 3','/home/ada/lab.yaml',replace('experiment: lab\ntitle: A lab of version 3\nbase:\n  device: cpu\n  train: {steps: 4}\npoints:\n  - {name: 1 GPU, evaluation: {every_steps: 2, fraction: 0.1}, memory_limit_gib: 1.5}\n  - {name: 2xFSDP, strategy: {kind: fsdp, ranks: 2, sharding: shard_grad_op}, checkpoint: {every_steps: 2}, precision: bf16_mixed, optimizer.kind: sgd}\n  - {name: no room, strategy: {kind: ddp, ranks: 2}}\n  - {name: killed, strategy: {kind: ddp, ranks: 2}}\n  - {name: planned only}\n','\n',char(10)),'');
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
  warmup_steps_excluded integer not null, sharding text not null default '', wrap text not null default 'transformer_block', prefetch integer not null default 1, limit_all_gathers integer not null default 1, optimizer text not null default 'adamw', schedule text not null default 'constant',
  unique (experiment, point, hash)
);
INSERT INTO runs VALUES(1,'lab','1 GPU','a90f83e23f6903a7e285998259b9a363','runs/lab/1-GPU-a90f83e2',0,1,'finished','',replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 4\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: 2\n  each_epoch: false\n  data: null\n  fraction: 0.1\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 1.5\n','\n',char(10)),'single','none',1,4,1,4,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant');
INSERT INTO runs VALUES(2,'lab','2xFSDP','df1eda3c7ebf1fd70b05bd0bae6ecc4e','runs/lab/2xFSDP-df1eda3c',1,1,'finished','',replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: fsdp\n  ranks: 2\n  sharding: shard_grad_op\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 8\n  gradient_accumulation_steps: 1\nprecision:\n  kind: bf16_mixed\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: sgd\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: 2\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)),'fsdp','none',2,4,1,8,'bf16_mixed','cpu',256,0,2,'shard_grad_op','transformer_block',1,1,'sgd','constant');
INSERT INTO runs VALUES(3,'lab','no room','dcbc7065d22e23ccc2d3fd5ca18c88fe','runs/lab/no-room-dcbc7065',2,1,'out_of_memory','rank 1: no room for 3 GiB',replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: ddp\n  ranks: 2\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 8\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)),'ddp','none',2,4,1,8,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant');
INSERT INTO runs VALUES(4,'lab','killed','dcbc7065d22e23ccc2d3fd5ca18c88fe','runs/lab/killed-dcbc7065',3,1,'failed','rank 1 killed by signal 9, after step 4',replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: ddp\n  ranks: 2\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 8\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)),'ddp','none',2,4,1,8,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant');
INSERT INTO runs VALUES(5,'lab','planned only','e1e15b6e4d7aaa57d42266e0bb72a918','runs/lab/planned-only-e1e15b6e',4,1,'planned','',replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  sharding: full_shard\n  shard_group_size: null\n  wrap:\n    policy: transformer_block\n    blocks: null\n    min_parameters: null\n  prefetch: 1\n  limit_all_gathers: true\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 4\n  gradient_accumulation_steps: 1\nprecision:\n  kind: fp32\n  parameters: null\n  reduction: null\n  buffers: null\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  momentum: 0\n  rho: 0.9\n  gradient_clip_norm: null\n  state_dtype: null\n  in_backward: false\nschedule:\n  kind: constant\n  warmup_steps: 0\n  min_learning_rate: 0\n  step_size: null\n  gamma: 0.1\ntrain:\n  steps: 4\n  epochs: null\n  sequences: null\n  max_steps: null\n  seed: 1\n  warmup_steps_excluded: 2\n  on_non_finite: stop\nevaluation:\n  every_steps: null\n  each_epoch: false\n  data: null\n  fraction: 0\n  size_per_rank: null\n  batches: null\ncheckpoint:\n  every_steps: null\n  at_end: false\n  when_improved: false\n  state_dict: full\n  single_file: false\n  keep: null\nresume: null\ncommunication:\n  timeout_s: 1800\ndevice_samples:\n  every_s: null\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)),'single','none',1,4,1,4,'fp32','cpu',256,0,2,'','transformer_block',1,1,'adamw','constant');
CREATE TABLE attempts (
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
INSERT INTO attempts VALUES(1,1,'finished','',NULL,1795281709568,1795281709644,'node1',12894);
INSERT INTO attempts VALUES(2,1,'finished','',NULL,1795281709663,1795281709716,'node1',12894);
INSERT INTO attempts VALUES(3,1,'out_of_memory','rank 1: no room for 3 GiB',1,1795281709736,1795281709808,'node1',12894);
INSERT INTO attempts VALUES(4,1,'failed','rank 1 killed by signal 9, after step 4',1,1795281709828,1795281709896,'node1',12894);
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
  memory_reserved_bytes_max integer, resumed_from_step integer, warning text,
  primary key (run, attempt, rank),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
INSERT INTO ranks VALUES(1,1,0,10,1795281709615,1795281709615,1,0,'stub',12898,'cpu','stub',1,4,1000,'none','run_finished',1795281709615,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'');
INSERT INTO ranks VALUES(2,1,0,7,1795281709695,1795281709688,2,0,'stub',12901,'cpu','stub',1,4,1000,'none','run_finished',1795281709695,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'');
INSERT INTO ranks VALUES(2,1,1,5,1795281709695,1795281709695,2,1,'stub',12902,'cpu','stub',1,4,1000,'none','run_finished',1795281709695,0,'',4,10.0,1500000,2500000,4194304,5242880,0,'');
INSERT INTO ranks VALUES(3,1,0,5,1795281709764,1795281709764,2,0,'stub',12908,'cpu','stub',1,4,1000,'none','run_finished',1795281709764,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'');
INSERT INTO ranks VALUES(3,1,1,3,1795281709771,1795281709771,2,1,'stub',12909,'cpu','stub',1,4,1000,'none','run_failed',1795281709771,3,'no room for 3 GiB',2,10.0,1048576,2097152,4194304,5242880,0,'');
INSERT INTO ranks VALUES(4,1,0,5,1795281709856,1795281709856,2,0,'stub',12912,'cpu','stub',1,4,1000,'none','run_finished',1795281709856,0,'',4,10.0,1048576,2097152,3145728,4194304,0,'');
INSERT INTO ranks VALUES(4,1,1,1,1795281709863,1795281709863,2,1,'stub',12913,'cpu','stub',1,4,1000,'none','none',NULL,NULL,NULL,1,10.0,1048576,2097152,4194304,5242880,0,'');
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
  memory_reserved_bytes_max integer not null, skipped integer not null default 0, gradient_scale real,
  primary key (run, attempt, rank, step),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
INSERT INTO steps VALUES(1,1,0,1,1,1795281709615,5.0,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(1,1,0,2,2,1795281709615,2.5,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(1,1,0,3,4,1795281709615,1.6666666666666667406,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(1,1,0,4,5,1795281709615,1.25,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(2,1,0,1,1,1795281709688,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(2,1,0,2,2,1795281709688,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(2,1,0,3,4,1795281709695,1.6666666666666667406,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(2,1,0,4,5,1795281709695,1.25,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(2,1,1,1,1,1795281709695,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL);
INSERT INTO steps VALUES(2,1,1,2,2,1795281709695,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1500000,2500000,4194304,5242880,0,NULL);
INSERT INTO steps VALUES(2,1,1,3,3,1795281709695,1.6666666666666667406,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL);
INSERT INTO steps VALUES(2,1,1,4,4,1795281709695,1.25,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL);
INSERT INTO steps VALUES(3,1,0,1,1,1795281709764,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(3,1,0,2,2,1795281709764,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(3,1,0,3,3,1795281709764,1.6666666666666667406,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(3,1,0,4,4,1795281709764,1.25,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(3,1,1,1,1,1795281709771,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL);
INSERT INTO steps VALUES(3,1,1,2,2,1795281709771,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL);
INSERT INTO steps VALUES(4,1,0,1,1,1795281709856,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(4,1,0,2,2,1795281709856,2.5,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(4,1,0,3,3,1795281709856,1.6666666666666667406,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(4,1,0,4,4,1795281709856,1.25,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304,0,NULL);
INSERT INTO steps VALUES(4,1,1,1,1,1795281709863,5.0,0,10.0,2048,2048,0.00020000000000000000958,NULL,1048576,2097152,4194304,5242880,0,NULL);
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
  start_up_time_ms real, skipped_steps integer, non_finite_steps integer, validation_loss_first real, validation_loss_last real, validation_loss_best real, token_accuracy_last real, checkpoint_write_time_ms_median real,
  primary key (run, attempt),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
INSERT INTO summaries VALUES(1,1,4,10.0,10.0,10.0,100.0,100.0,102400.0,3145728,3145728,4194304,4194304,5.0,1.25,47,37.0,0,0,3.0,1.5,1.5,0.125,NULL);
INSERT INTO summaries VALUES(2,1,4,10.0,10.0,10.0,100.0,100.0,204800.0,4194304,3145728,5242880,4194304,5.0,1.25,32,15.0,0,0,NULL,NULL,NULL,NULL,1500.0);
INSERT INTO summaries VALUES(3,1,2,10.0,10.0,10.0,100.0,100.0,204800.0,4194304,3145728,5242880,4194304,5.0,1.25,35,18.0,0,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO summaries VALUES(4,1,1,10.0,10.0,10.0,100.0,100.0,204800.0,4194304,3145728,5242880,4194304,5.0,1.25,68,18.0,0,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE file_digests (
  path text primary key,
  size_bytes integer not null,
  modified_unix_ns integer not null,
  digest text not null
) without rowid;
INSERT INTO file_digests VALUES('/data/chess/games.csv',2001413,1795255062853910703,'a6471bcc77f502149f8682012556d12c');
INSERT INTO file_digests VALUES('/data/chess/tokenizer.model',15680,1795255094982129732,'80e67c4e6b2ef354e4b7eaf3d80468a4');
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
INSERT INTO evaluations VALUES(1,1,0,3,1795281709615,2,3.0,0,0.125,100,1.0);
INSERT INTO evaluations VALUES(1,1,0,6,1795281709615,4,1.5,0,0.125,100,1.0);
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
INSERT INTO checkpoints VALUES(2,1,0,3,1795281709695,2,'checkpoints/step-2',3145728,1500.0);
INSERT INTO checkpoints VALUES(2,1,0,6,1795281709695,4,'checkpoints/step-4',3145728,1500.0);
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
  memory_clock_mhz real,
  primary key (run, attempt, rank, sequence),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
INSERT INTO device_samples VALUES(1,1,0,8,1795281709600,'stub','cpu','stub',40.0,1,2,NULL,NULL,NULL,NULL);
INSERT INTO device_samples VALUES(1,1,0,9,1795281709600,'stub','cpu','stub',60.0,1,2,NULL,NULL,NULL,NULL);
INSERT INTO device_samples VALUES(1,1,0,10,1795281709600,'stub','gpu:0','an idle GPU',99.0,1,2,300.0,NULL,NULL,NULL);
CREATE INDEX running_attempts on attempts (run) where status = 'running';
CREATE VIEW comparison_per_rank as
select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, k.steps, k.step_time_ms_median, k.memory_allocated_bytes_forward,
  k.memory_reserved_bytes_forward, k.memory_allocated_bytes_max, k.memory_reserved_bytes_max
from comparison c
left join ranks k on k.run = c.run and k.attempt = c.attempt
order by c.experiment, c.position, k.rank;
CREATE VIEW comparison as
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
COMMIT;
PRAGMA user_version=3;
