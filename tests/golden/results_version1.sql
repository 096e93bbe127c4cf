-- A results.sqlite of schema version 1, as the sqlite3 program dumps it.
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE experiments (
  name text primary key,
  title text not null,
  file text not null,
  text text not null,
  profile text not null
);
INSERT INTO experiments VALUES('lab','A lab of long ago','lab.yaml',replace('experiment: lab\ntitle: A lab of long ago\nbase: {train.steps: 3, device: cpu}\npoints:\n  - {name: 1 GPU}\n  - {name: 2xFSDP, strategy: {kind: fsdp, ranks: 2}, precision: bf16_true}\n  - {name: killed, strategy: {kind: ddp, ranks: 2}}\n  - {name: never run, batch.size_per_rank: 2}\n','\n',char(10)),'');
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
  warmup_steps_excluded integer not null,
  unique (experiment, point, hash)
);
INSERT INTO runs VALUES(1,'lab','1 GPU','7cb2da1aa87dd3aadd566da9645a218a','runs/lab/1-GPU-7cb2da1a',0,1,'finished','',replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: single\n  ranks: 1\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 4\n  gradient_accumulation_steps: 1\nprecision: fp32\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  gradient_clip_norm: null\ntrain:\n  steps: 3\n  epochs: null\n  sequences: null\n  seed: 1\n  warmup_steps_excluded: 2\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0\n','\n',char(10)),'single','none',1,4,1,4,'fp32','cpu',256,0,2);
INSERT INTO runs VALUES(3,'lab','killed','6e927ba66008fb11fe748f40cb63f50c','runs/lab/killed-6e927ba6',2,1,'failed','rank 0 killed by signal 9, before the first step',replace('model:\n  source: null\n  config:\n    num_hidden_layers: 6\n    hidden_size: 288\n    intermediate_size: 768\n    num_attention_heads: 6\n    num_key_value_heads: 6\n    vocab_size: 1024\n    rope_theta: 10000\n    rms_norm_eps: 1e-05\n    tie_word_embeddings: false\n    max_position_embeddings: 2048\ndata:\n  kind: chess\n  train: null\n  tokenizer: null\n  sequence_length: 256\n  shuffle: true\nstrategy:\n  kind: ddp\n  ranks: 2\n  offload: none\n  accumulate: sharded\nbatch:\n  size_per_rank: 4\n  total: 8\n  gradient_accumulation_steps: 1\nprecision: fp32\nactivation_checkpointing:\n  every: 0\noptimizer:\n  kind: adamw\n  learning_rate: 2e-04\n  weight_decay: 0\n  beta1: 0.9\n  beta2: 0.95\n  epsilon: 1e-08\n  gradient_clip_norm: null\ntrain:\n  steps: 3\n  epochs: null\n  sequences: null\n  seed: 1\n  warmup_steps_excluded: 2\ndevice: cpu\nthreads_per_rank: null\nmemory_limit_gib: 0.25\n','\n',char(10)),'ddp','none',2,4,1,8,'fp32','cpu',256,0,2);
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
INSERT INTO attempts VALUES(1,1,'finished','',NULL,1795269918271,1795269918279,'node1',18688);
INSERT INTO attempts VALUES(3,1,'failed','rank 0 killed by signal 9, before the first step',0,1795269918288,1795269918295,'node1',18688);
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
  memory_reserved_bytes_max integer,
  primary key (run, attempt, rank),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
INSERT INTO ranks VALUES(1,1,0,4,1795269918277,1795269918277,1,0,'stub',18691,'cpu','stub',1,3,1000,'none','run_finished',1795269918277,0,'',3,10.0,1048576,2097152,3145728,4194304);
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
  memory_reserved_bytes_max integer not null,
  primary key (run, attempt, rank, step),
  foreign key (run, attempt, rank) references ranks (run, attempt, rank)
) without rowid;
INSERT INTO steps VALUES(1,1,0,1,1,1795269918277,5.0,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304);
INSERT INTO steps VALUES(1,1,0,2,2,1795269918277,2.5,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304);
INSERT INTO steps VALUES(1,1,0,3,3,1795269918277,1.6666666666666667406,0,10.0,1024,1024,0.00020000000000000000958,NULL,1048576,2097152,3145728,4194304);
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
  start_up_time_ms real,
  primary key (run, attempt),
  foreign key (run, attempt) references attempts (run, attempt)
) without rowid;
INSERT INTO summaries VALUES(1,1,3,10.0,10.0,10.0,100.0,100.0,102400.0,3145728,3145728,4194304,4194304,5.0,1.6666666666666667406,6,-4.0);
INSERT INTO summaries VALUES(3,1,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,12,NULL);
CREATE TABLE file_digests (
  path text primary key,
  size_bytes integer not null,
  modified_unix_ns integer not null,
  digest text not null
) without rowid;
INSERT INTO file_digests VALUES('/data/chess/games.csv',2001413,1795255062853910703,'a6471bcc77f502149f8682012556d12c');
INSERT INTO file_digests VALUES('/data/chess/tokenizer.model',15680,1795255094982129732,'80e67c4e6b2ef354e4b7eaf3d80468a4');
CREATE INDEX running_attempts on attempts (run) where status = 'running';
CREATE VIEW comparison as
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
CREATE VIEW comparison_per_rank as
select c.experiment, c.run, c.position, c.point, c.attempt, c.status, k.rank, k.host, k.device,
  k.device_name, k.steps, k.step_time_ms_median, k.memory_allocated_bytes_forward,
  k.memory_reserved_bytes_forward, k.memory_allocated_bytes_max, k.memory_reserved_bytes_max
from comparison c
join ranks k on k.run = c.run and k.attempt = c.attempt
order by c.experiment, c.position, k.rank;
COMMIT;
PRAGMA user_version=1;
