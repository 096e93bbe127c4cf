#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "contract/spec/run_spec.h"
#include "runner/store/run_status.h"
#include "runner/store/summary.h"

// The rows that reports are made of.
namespace fsdp {

// The view `comparison` with the specifications, which would fill a screen there.
inline constexpr const char* kComparisonRows =
    "(select c.*, r.spec from comparison c join runs r on r.id = c.run "
    "order by c.experiment, c.position, c.family_value)";

// One line of the view `comparison`, whose columns have these names, but for the last: one run of
// its experiment's current list and its newest attempt. It has no figures until an attempt was
// begun.
struct ComparisonRow : AttemptSummary {
  std::string experiment;
  std::string source;  // whose results it was merged from; empty: it ran here
  int64_t run = 0;
  std::string hash8;
  int64_t position = 0;
  std::string point;
  std::string series;       // the point without the number of the repeat
  int64_t repeat = 0;       // within the series, from 0
  std::string data_digest;  // of the contents of all input files; empty: recorded before version 4
  // Runs in which it is equal and not empty must have equal losses.
  std::string loss_digest;
  std::string family;                   // runs that differ in a doubled key only; empty: none
  std::string family_key;               // the doubled key
  std::optional<int64_t> family_value;  // and the run's value of it
  double memory_limit_gib = 0;          // 0: none
  std::string compare;                  // what the experiment compares by: "loss", "throughput"
  StrategyKind strategy = StrategyKind::kSingle;
  std::string sharding;  // "full_shard", "hybrid_shard 4"; empty but for fsdp
  std::string wrap;      // "transformer_block", "none", "blocks 2", "min_parameters 100"
  int64_t prefetch = 1;
  bool limit_all_gathers = true;
  Offload offload = Offload::kNone;
  int64_t ranks = 1;
  int64_t batch_size_per_rank = 0;
  int64_t gradient_accumulation_steps = 0;
  int64_t total_batch = 0;
  std::string precision;  // its name in short
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  ScheduleKind schedule = ScheduleKind::kConstant;
  DeviceKind device = DeviceKind::kAuto;
  int64_t sequence_length = 0;
  int64_t activation_checkpointing_every = 0;
  int64_t warmup_steps_excluded = 0;
  std::filesystem::path folder;    // relative to the results folder
  std::optional<int64_t> attempt;  // absent: none was started
  RunStatus status = RunStatus::kPlanned;
  std::string reason;
  std::optional<int64_t> reason_rank;      // the rank whose log says more
  std::optional<int64_t> started_unix_ms;  // the attempt
  std::string host;                        // that the attempt was started on, as the next three
  std::string slurm_job;                   // that the attempt ran in; empty: none
  std::string node_list;                   // of that job
  std::string git_commit;                  // empty: not known
  std::optional<bool> git_dirty;
  std::string trainer_digest;
  std::string device_name;  // of rank 0 until other_processes; empty until it reported
  std::optional<int64_t> device_memory_bytes;
  std::string torch_version;
  std::string cuda_version;
  std::string driver_version;
  std::optional<int64_t> steps_planned;
  // Of the checkpoint that the attempt went on from, 0: none; absent until rank 0 reported.
  std::optional<int64_t> resumed_from_step;
  std::optional<int64_t> other_processes;  // on a rank's GPU when it started; most of any rank
  int64_t skipped_lines = 0;               // of the ranks' events, that could not be read
  std::string spec;                        // the run's specification as JSON

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("experiment", self.experiment);
    visit("source", self.source);
    visit("run", self.run);
    visit("hash8", self.hash8);
    visit("position", self.position);
    visit("point", self.point);
    visit("series", self.series);
    visit("repeat", self.repeat);
    visit("data_digest", self.data_digest);
    visit("loss_digest", self.loss_digest);
    visit("family", self.family);
    visit("family_key", self.family_key);
    visit("family_value", self.family_value);
    visit("memory_limit_gib", self.memory_limit_gib);
    visit("compare", self.compare);
    visit("strategy", self.strategy);
    visit("sharding", self.sharding);
    visit("wrap", self.wrap);
    visit("prefetch", self.prefetch);
    visit("limit_all_gathers", self.limit_all_gathers);
    visit("offload", self.offload);
    visit("ranks", self.ranks);
    visit("batch_size_per_rank", self.batch_size_per_rank);
    visit("gradient_accumulation_steps", self.gradient_accumulation_steps);
    visit("total_batch", self.total_batch);
    visit("precision", self.precision);
    visit("optimizer", self.optimizer);
    visit("schedule", self.schedule);
    visit("device", self.device);
    visit("sequence_length", self.sequence_length);
    visit("activation_checkpointing_every", self.activation_checkpointing_every);
    visit("warmup_steps_excluded", self.warmup_steps_excluded);
    visit("folder", self.folder);
    visit("attempt", self.attempt);
    visit("status", self.status);
    visit("reason", self.reason);
    visit("reason_rank", self.reason_rank);
    visit("started_unix_ms", self.started_unix_ms);
    visit("host", self.host);
    visit("slurm_job", self.slurm_job);
    visit("node_list", self.node_list);
    visit("git_commit", self.git_commit);
    visit("git_dirty", self.git_dirty);
    visit("trainer_digest", self.trainer_digest);
    visit("device_name", self.device_name);
    visit("device_memory_bytes", self.device_memory_bytes);
    visit("torch_version", self.torch_version);
    visit("cuda_version", self.cuda_version);
    visit("driver_version", self.driver_version);
    visit("steps_planned", self.steps_planned);
    visit("resumed_from_step", self.resumed_from_step);
    visit("other_processes", self.other_processes);
    visit("skipped_lines", self.skipped_lines);
    visit("spec", self.spec);
    AttemptSummary::visit_fields(self, visit);
  }
};

// One line of the view `comparison_per_rank`: one rank of the same attempts. A run of which no
// rank has reported anything has one line without a rank.
struct RankRow : RankSummary {
  std::string experiment;
  int64_t run = 0;
  int64_t position = 0;
  std::string point;
  std::optional<int64_t> attempt;
  RunStatus status = RunStatus::kPlanned;  // of the run
  std::optional<int64_t> rank;
  std::string host;
  std::string device;  // "cpu", "cuda:0"
  std::string device_name;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("experiment", self.experiment);
    visit("run", self.run);
    visit("position", self.position);
    visit("point", self.point);
    visit("attempt", self.attempt);
    visit("status", self.status);
    visit("rank", self.rank);
    visit("host", self.host);
    visit("device", self.device);
    visit("device_name", self.device_name);
    RankSummary::visit_fields(self, visit);
  }
};

// One line of the view `statuses`: how a run of its experiment's current list stands.
struct StatusRow {
  std::string experiment;
  int64_t run = 0;
  std::string point;
  RunStatus status = RunStatus::kPlanned;
  std::string reason;
  std::optional<int64_t> attempt;  // the one that the view `comparison` shows
  std::optional<int64_t> started_unix_ms;
  std::optional<int64_t> ended_unix_ms;  // absent while it runs
  std::string host;                      // of the runner; empty without an attempt
  int64_t runner_process_id = 0;
  std::optional<int64_t> steps_done;     // of the whole run, those before a checkpoint included
  std::optional<int64_t> steps_planned;  // of the whole run; absent until rank 0 reported
  std::optional<double> step_time_ms_median;
  std::optional<int64_t> memory_allocated_bytes_max;
  std::optional<double> loss_last;
  // The run's newest job, or the one that the attempt ran in; empty: none, or sbatch has not
  // answered.
  std::string slurm_job;
  std::string node_list;
  // Of a job that is not over, as Slurm last said.
  std::string job_state;
  std::string job_reason;                   // why it is pending
  std::optional<int64_t> job_ends_unix_ms;  // when its time limit passes

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("experiment", self.experiment);
    visit("run", self.run);
    visit("point", self.point);
    visit("status", self.status);
    visit("reason", self.reason);
    visit("attempt", self.attempt);
    visit("started_unix_ms", self.started_unix_ms);
    visit("ended_unix_ms", self.ended_unix_ms);
    visit("host", self.host);
    visit("runner_process_id", self.runner_process_id);
    visit("steps_done", self.steps_done);
    visit("steps_planned", self.steps_planned);
    visit("step_time_ms_median", self.step_time_ms_median);
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max);
    visit("loss_last", self.loss_last);
    visit("slurm_job", self.slurm_job);
    visit("node_list", self.node_list);
    visit("job_state", self.job_state);
    visit("job_reason", self.job_reason);
    visit("job_ends_unix_ms", self.job_ends_unix_ms);
  }
};

}  // namespace fsdp
