#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runner/store/run_status.h"
#include "trainer/contract/run_spec.h"

// The rows that reports are made of.
namespace fsdp {

// One line of the view `comparison`, whose columns have these names: one run of its experiment's
// current list and its newest attempt. Figures are absent until measured; AttemptSummary in
// summary.h says what each is.
struct ComparisonRow {
  std::string experiment;
  int64_t run = 0;
  std::string hash8;
  int64_t position = 0;
  std::string point;
  StrategyKind strategy = StrategyKind::kSingle;
  Offload offload = Offload::kNone;
  int64_t ranks = 1;
  int64_t batch_size_per_rank = 0;
  int64_t gradient_accumulation_steps = 0;
  int64_t total_batch = 0;
  Precision precision = Precision::kFp32;
  DeviceKind device = DeviceKind::kAuto;
  int64_t sequence_length = 0;
  int64_t activation_checkpointing_every = 0;
  int64_t warmup_steps_excluded = 0;
  std::filesystem::path folder;    // relative to the results folder
  std::optional<int64_t> attempt;  // absent: none was started
  RunStatus status = RunStatus::kPlanned;
  std::string reason;
  std::optional<int64_t> reason_rank;  // the rank whose log says more
  std::string device_name;             // of rank 0; empty until it reported
  std::optional<int64_t> steps;
  std::optional<double> step_time_ms_median;
  std::optional<double> step_time_ms_p25;
  std::optional<double> step_time_ms_p75;
  std::optional<double> steps_per_second;
  std::optional<double> micro_batches_per_second;
  std::optional<double> tokens_per_second;
  std::optional<int64_t> memory_allocated_bytes_max;
  std::optional<int64_t> memory_allocated_bytes_min;
  std::optional<int64_t> memory_reserved_bytes_max;
  std::optional<int64_t> memory_reserved_bytes_min;
  std::optional<double> loss_first;
  std::optional<double> loss_last;
  std::optional<int64_t> total_time_ms;
  std::optional<double> start_up_time_ms;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("experiment", self.experiment);
    visit("run", self.run);
    visit("hash8", self.hash8);
    visit("position", self.position);
    visit("point", self.point);
    visit("strategy", self.strategy);
    visit("offload", self.offload);
    visit("ranks", self.ranks);
    visit("batch_size_per_rank", self.batch_size_per_rank);
    visit("gradient_accumulation_steps", self.gradient_accumulation_steps);
    visit("total_batch", self.total_batch);
    visit("precision", self.precision);
    visit("device", self.device);
    visit("sequence_length", self.sequence_length);
    visit("activation_checkpointing_every", self.activation_checkpointing_every);
    visit("warmup_steps_excluded", self.warmup_steps_excluded);
    visit("folder", self.folder);
    visit("attempt", self.attempt);
    visit("status", self.status);
    visit("reason", self.reason);
    visit("reason_rank", self.reason_rank);
    visit("device_name", self.device_name);
    visit("steps", self.steps);
    visit("step_time_ms_median", self.step_time_ms_median);
    visit("step_time_ms_p25", self.step_time_ms_p25);
    visit("step_time_ms_p75", self.step_time_ms_p75);
    visit("steps_per_second", self.steps_per_second);
    visit("micro_batches_per_second", self.micro_batches_per_second);
    visit("tokens_per_second", self.tokens_per_second);
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max);
    visit("memory_allocated_bytes_min", self.memory_allocated_bytes_min);
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max);
    visit("memory_reserved_bytes_min", self.memory_reserved_bytes_min);
    visit("loss_first", self.loss_first);
    visit("loss_last", self.loss_last);
    visit("total_time_ms", self.total_time_ms);
    visit("start_up_time_ms", self.start_up_time_ms);
  }
};

// One line of the view `comparison_per_rank`: one rank of the same attempts; RankSummary in
// summary.h says what the figures are.
struct RankRow {
  std::string experiment;
  int64_t run = 0;
  int64_t position = 0;
  std::string point;
  int64_t attempt = 0;
  RunStatus status = RunStatus::kPlanned;  // of the run
  int64_t rank = 0;
  std::string host;
  std::string device;  // "cpu", "cuda:0"
  std::string device_name;
  std::optional<int64_t> steps;
  std::optional<double> step_time_ms_median;
  std::optional<int64_t> memory_allocated_bytes_forward;
  std::optional<int64_t> memory_reserved_bytes_forward;
  std::optional<int64_t> memory_allocated_bytes_max;
  std::optional<int64_t> memory_reserved_bytes_max;

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
    visit("steps", self.steps);
    visit("step_time_ms_median", self.step_time_ms_median);
    visit("memory_allocated_bytes_forward", self.memory_allocated_bytes_forward);
    visit("memory_reserved_bytes_forward", self.memory_reserved_bytes_forward);
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max);
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max);
  }
};

}  // namespace fsdp
