#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "contract/record/host_memory.h"
#include "contract/record/memory_peak.h"
#include "contract/spec/run_spec.h"
#include "runner/store/figures.h"
#include "runner/store/run_status.h"

// The rows of reports.
namespace fsdp {

// Selects runs of an experiment: those in its list as last planned, or in any list that it had.
enum class Listed { kNow, kEver };

struct StepLoss {
  int64_t step = 0;                       // of the optimizer, from 1
  std::optional<double> loss;             // nullopt: not finite
  std::optional<double> gradient_norm{};  // before clipping; nullopt: not measured, or not finite

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("step", self.step);
    visit("loss", self.loss);
    visit("gradient_norm", self.gradient_norm);
  }
};

// The sum over all attempts of a run: the time, multiplied by the number of GPUs or nodes held.
struct HeldTime {
  std::optional<double> gpu_time_ms{};  // GPUs held in a job, else one a rank; nullopt: on the CPU
  std::optional<double> gpu_time_in_jobs_ms{};   // of attempts in jobs only
  std::optional<double> gpu_time_of_ranks_ms{};  // of attempts in jobs, as if one GPU a rank
  std::optional<double> node_time_ms{};          // nodes held in a job; nullopt: not in a job

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("gpu_time_ms", self.gpu_time_ms);
    visit("gpu_time_in_jobs_ms", self.gpu_time_in_jobs_ms);
    visit("gpu_time_of_ranks_ms", self.gpu_time_of_ranks_ms);
    visit("node_time_ms", self.node_time_ms);
  }
};

// The time of an attempt, and the GPUs and nodes that it held in a job.
struct AttemptTime {
  int64_t run = 0;
  double time_ms = 0;
  std::optional<double> gpus_held;
  std::optional<double> nodes_held;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("run", self.run);
    visit("time_ms", self.time_ms);
    visit("gpus_held", self.gpus_held);
    visit("nodes_held", self.nodes_held);
  }
};

// One row of reports: a run and the attempt that stands for it. This is the newest attempt that was
// not cut short, else the newest. The figures are empty until an attempt has begun.
struct ComparisonRow : AttemptSummary {
  // Its place in the experiment.
  std::string experiment;
  std::string source;
  int64_t position = 0;
  std::string point;
  std::string series;
  int64_t repeat = 0;
  int64_t run = 0;
  bool current = true;
  std::string hash8;
  std::optional<int64_t> attempt;
  std::filesystem::path folder;
  RunSpec spec;
  std::string family;
  std::string family_key;
  std::optional<int64_t> family_value;
  std::string compare;
  // The origin of its figures. Unknown members are empty; some are unknown until rank 0 reports.
  std::string device_name;
  std::string cpu_name;
  std::optional<int64_t> device_memory_bytes;
  std::optional<int64_t> threads;
  std::optional<int64_t> parameter_count;
  std::optional<int64_t> trained_parameter_count;
  std::optional<int64_t> other_processes;
  std::optional<int64_t> memory_allocated_bytes_predicted;
  std::optional<double> step_time_ms_predicted;
  std::string host;
  std::string account_host;
  std::string slurm_job;
  std::string node_list;
  std::optional<int64_t> started_unix_ms;
  std::string git_commit;
  std::optional<bool> git_dirty;
  std::optional<bool> git_untracked;
  std::string experiment_text_digest;
  std::string runner_version;
  std::string trainer_digest;
  std::string torch_version;
  std::string cuda_version;
  std::string driver_version;
  std::string data_digest;
  std::string loss_digest;
  // Its outcome.
  std::optional<int64_t> resumed_from_step;
  std::optional<int64_t> steps_planned;
  RunStatus status = RunStatus::kPlanned;
  int64_t skipped_lines = 0;
  std::string reason;
  std::optional<int64_t> reason_rank;
  HeldTime held{};
  std::vector<StepLoss> losses{};  // of each step; only for runs that must have equal losses
  // The uses of the memory that was allocated at memory_allocated_bytes_max; nullopt: not recorded.
  std::optional<MemoryByUse> memory_by_use{};

  // True if the run measured its loss. A missing loss was then not finite.
  bool has_losses() const { return steps.value_or(0) > 0; }
  // The same for its validation loss.
  bool has_validation_losses() const { return token_accuracy_last.has_value(); }
  // Returns the limit that an out_of_memory run exceeded; nullopt: unknown, or the host's memory,
  // as in results of earlier versions.
  std::optional<double> exceeded_limit_bytes() const {
    if (says_host_memory(reason)) return std::nullopt;
    if (!(spec.memory_limit_gib > 0)) return device_memory_bytes;
    const double limit = spec.memory_limit_gib * 0x1p30;
    return device_memory_bytes ? std::min(limit, static_cast<double>(*device_memory_bytes)) : limit;
  }

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit_place(self, visit);
    visit_settings(self.spec, visit);
    visit_family(self, visit);
    visit("warmup_steps_excluded", self.spec.train.warmup_steps_excluded,
          "Number of first steps that step-time figures leave out.");
    visit("device", self.spec.device, "cpu or cuda.");
    visit_results(self, visit);
    HeldTime::visit_fields(self.held, visit);
  }

  // Visits the members that are columns of the view `comparison`.
  template <typename Self, typename Visitor>
  static void visit_stored(Self& self, Visitor&& visit) {
    visit_place(self, visit);
    visit_family(self, visit);
    visit_results(self, visit);
  }

 private:
  template <typename Self, typename Visitor>
  static void visit_place(Self& self, Visitor&& visit) {
    visit("experiment", self.experiment, "Name of the experiment.");
    visit("source", self.source, "Whose results the run was merged from; empty: it ran here.",
          "source", Better::kNeither, Shown::kWhereKnown);
    visit("position", self.position, "Place in the experiment, from 0.");
    visit("point", self.point, "Name of the point, with what a sweep varies.", "point");
    visit("series", self.series, "Name of the point without the number of the repeat.");
    visit("repeat", self.repeat, "Number of the repeat within the series, from 0.");
    visit("run", self.run, "Number of the run in the database.");
    visit("current", self.current,
          "1: in its experiment's list; 0: no longer, a row of `report --all`.");
    visit("hash8", self.hash8, "First digits of the run's hash.");
    visit("attempt", self.attempt,
          "Number of the newest attempt that was not cut short, else of the newest; absent: none "
          "was started.");
    visit("folder", self.folder, "The run's folder, in the results folder.");
  }

  template <typename Spec, typename Visitor>
  static void visit_settings(Spec& spec, Visitor&& visit) {
    visit("strategy", spec.strategy.kind,
          "single, ddp or fsdp; for people with sharding and +offload.", "strategy");
    visit("prefetch", spec.strategy.prefetch, "Units that are gathered ahead.");
    visit("limit_all_gathers", spec.strategy.limit_all_gathers,
          "1: a gather waits for the memory of a unit before it; 0: not.");
    visit("offload", spec.strategy.offload, "What lives in CPU memory.");
    visit("ranks", spec.strategy.ranks, "Processes.", "ranks");
    visit("batch_size_per_rank", spec.batch.size_per_rank,
          "Sequences per rank and micro-batch; for people with x accumulation.", "batch");
    visit("gradient_accumulation_steps", spec.batch.gradient_accumulation_steps,
          "Micro-batches per optimizer step.");
    visit("total_batch", spec.batch.total, "Sequences per optimizer step, all ranks.",
          "total\nbatch");
    visit("optimizer", spec.optimizer.kind, "Kind of the optimizer.");
    visit("schedule", spec.schedule.kind, "Kind of the learning rate's schedule.");
    visit("sequence_length", spec.data.sequence_length, "Tokens per sequence.");
    visit("activation_checkpointing_every", spec.activation_checkpointing.every,
          "Every which block is recomputed; 0: none.");
    visit("memory_limit_gib", spec.memory_limit_gib,
          "Limit of the allocator, as if the card were smaller; 0: none.");
  }

  template <typename Self, typename Visitor>
  static void visit_family(Self& self, Visitor&& visit) {
    visit("family", self.family, "Runs that differ in a doubled key only; empty: none.");
    visit("family_key", self.family_key, "The doubled key.");
    visit("family_value", self.family_value, "The run's value of the doubled key.");
    visit("compare", self.compare,
          "What the experiment's rows are compared by: loss or throughput.");
  }

  template <typename Self, typename Visitor>
  static void visit_results(Self& self, Visitor&& visit) {
    visit("device_name", self.device_name, "Name of rank 0's processor or GPU.");
    visit("cpu_name", self.cpu_name, "Name of the processor of the host that it was started on.");
    visit("device_memory_bytes", self.device_memory_bytes, "Memory that rank 0 may use on it.");
    visit("threads", self.threads, "CPU threads of rank 0.");
    visit("parameter_count", self.parameter_count, "Parameters of the model, without adapters.");
    visit("trained_parameter_count", self.trained_parameter_count,
          "Parameters that are trained, those of adapters too.");
    visit("other_processes", self.other_processes,
          "Processes of others on a rank's GPU when it started, the most.");
    visit("memory_allocated_bytes_predicted", self.memory_allocated_bytes_predicted,
          "memory_allocated_bytes_max as it was planned before the attempt began.");
    visit("step_time_ms_predicted", self.step_time_ms_predicted,
          "step_time_ms_median as it was planned then; absent: not calibrated.");
    visit("host", self.host, "Where the attempt was started.");
    visit("slurm_job", self.slurm_job, "Job of Slurm that the attempt ran in.");
    visit("node_list", self.node_list, "Nodes of that job.");
    visit("started_unix_ms", self.started_unix_ms, "When the attempt was started.");
    visit("git_commit", self.git_commit, "Commit that fsdp-run was started from.");
    visit("git_dirty", self.git_dirty, "1: with changes that were not committed.");
    visit("git_untracked", self.git_untracked,
          "1: git did not track the experiment's file, so that the commit says nothing of it.");
    visit("experiment_text_digest", self.experiment_text_digest,
          "Digest of the experiment's file when the attempt began.");
    visit("runner_version", self.runner_version, "Version of fsdp-run.");
    visit("trainer_digest", self.trainer_digest, "Digest of the trainer's binary.");
    visit("torch_version", self.torch_version, "Version of libtorch.");
    visit("cuda_version", self.cuda_version, "Version of CUDA.");
    visit("driver_version", self.driver_version, "Version of the GPU's driver.");
    visit("data_digest", self.data_digest, "Digest of the contents of all input files.");
    visit("loss_digest", self.loss_digest,
          "Digest of what decides the losses: runs in which it is equal must have equal ones.");
    visit_memory(self, visit);
    visit_speed_and_cost(self, visit);
    visit_utilization(self, visit);
    visit_account(self, visit);
    visit("account_host", self.account_host, "The host of account_rank.");
    visit("resumed_from_step", self.resumed_from_step,
          "Step of the checkpoint that the attempt went on from; 0: none.");
    visit("steps_planned", self.steps_planned, "Optimizer steps of the whole run.");
    visit_outcome(self, visit);
    visit("status", self.status, "How the run stands; of a series how many stand how.", "status");
    visit("skipped_lines", self.skipped_lines,
          "Lines of the ranks' events that could not be read.");
    visit("reason", self.reason, "Why, when there is something to say.");
    visit("reason_rank", self.reason_rank, "The rank whose log says more.");
  }
};

// A row of the view `comparison`. Its specification is a text, as it was stored.
struct StoredRow {
  ComparisonRow row;
  std::string spec;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    ComparisonRow::visit_stored(self.row, visit);
    visit("spec", self.spec);
  }
};

// Adds an attempt of the run to `row.held`.
void add_held_time(ComparisonRow& row, const AttemptTime& attempt);

// Return a setting for people. Examples of sharding are "full_shard" and "hybrid_shard 4"; it is
// empty unless the strategy is fsdp. Examples of the modules of a unit are "transformer_block" and
// "blocks 2". Examples of the number format are "bf16_mixed" and "bf16/fp32/fp32".
std::string sharding_text(const StrategySpec& strategy);
std::string wrap_text(const WrapSpec& wrap);
std::string precision_text(const PrecisionSpec& precision);

// One line of the view `comparison_per_rank`: one rank of an attempt in the view `comparison`. If
// no rank of a run has reported anything, the run has one line without a rank.
struct RankRow : RankSummary {
  std::string experiment;
  int64_t position = 0;
  std::string point;
  int64_t run = 0;
  std::optional<int64_t> attempt;
  std::optional<int64_t> rank;
  std::string host;
  std::string device;  // "cpu", "cuda:0"
  std::string device_name;
  RunStatus status = RunStatus::kPlanned;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("experiment", self.experiment, "Name of the experiment.");
    visit("position", self.position, "Place of the run in the experiment.");
    visit("point", self.point, "Name of the point.", "point");
    visit("run", self.run, "Number of the run in the database.");
    visit("attempt", self.attempt,
          "Number of the newest attempt that was not cut short, else of the newest.");
    visit("rank", self.rank, "The process among the run's.", "rank");
    visit("host", self.host, "Where it ran.");
    visit("device", self.device, "What it computed on.", "device");
    visit("device_name", self.device_name, "Name of the processor or GPU.");
    RankSummary::visit_fields(self, visit);
    visit("status", self.status, "How the run stands.", "status");
  }
};

}  // namespace fsdp
