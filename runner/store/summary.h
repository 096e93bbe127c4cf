#pragma once

#include <cstdint>
#include <optional>

// What a table shows of an attempt and of its ranks.
namespace fsdp {

// A step takes as long as its slowest rank. Medians and quartiles (linear interpolation between
// neighbours) are over the steps that every rank did, without the first `warmup_steps_excluded`, or
// over all of them when no more were done. Figures are absent until measured. An attempt that goes
// on from a checkpoint has the times and memory of its own steps; its losses begin with the run's.
struct AttemptSummary {
  std::optional<int64_t> steps;  // how many optimizer steps every rank did in this attempt
  std::optional<double> step_time_ms_median;
  std::optional<double> step_time_ms_p25;
  std::optional<double> step_time_ms_p75;
  std::optional<double> steps_per_second;
  std::optional<double> micro_batches_per_second;
  std::optional<double> tokens_per_second;            // of all ranks
  std::optional<int64_t> memory_allocated_bytes_max;  // peak over all steps of the rank with most
  std::optional<int64_t> memory_allocated_bytes_min;  // the same of the rank with least
  std::optional<int64_t> memory_reserved_bytes_max;
  std::optional<int64_t> memory_reserved_bytes_min;
  // The largest figure at the end of forward, of the rank with most and with least.
  std::optional<int64_t> memory_allocated_bytes_forward_max;
  std::optional<int64_t> memory_allocated_bytes_forward_min;
  std::optional<int64_t> memory_reserved_bytes_forward_max;
  // Median over the same steps as the step time, of each step's slowest rank.
  std::optional<double> communication_time_ms_median;
  // Means over the device samples: of the GPUs that the ranks use, of the nodes' processors.
  std::optional<double> gpu_utilization_percent_mean;
  std::optional<double> cpu_utilization_percent_mean;
  std::optional<double> energy_joules;  // of the GPUs that the ranks use, first to last sample
  std::optional<double> loss_first;     // of the run's first step; absent when not finite
  std::optional<double> loss_last;
  std::optional<int64_t> skipped_steps;         // that left the parameters as they are
  std::optional<int64_t> non_finite_steps;      // whose loss was NaN or infinite
  std::optional<double> validation_loss_first;  // of the run's first evaluation
  std::optional<double> validation_loss_last;
  std::optional<double> validation_loss_best;  // the least
  std::optional<double> token_accuracy_last;   // of the last evaluation, 0 to 1
  std::optional<double> checkpoint_write_time_ms_median;
  // From the start of a rank's process to its last event, by its own clock; of the longest rank.
  std::optional<int64_t> total_time_ms;
  std::optional<double> start_up_time_ms;  // start of rank 0's process to that of its first step

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
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
    visit("memory_allocated_bytes_forward_max", self.memory_allocated_bytes_forward_max);
    visit("memory_allocated_bytes_forward_min", self.memory_allocated_bytes_forward_min);
    visit("memory_reserved_bytes_forward_max", self.memory_reserved_bytes_forward_max);
    visit("communication_time_ms_median", self.communication_time_ms_median);
    visit("gpu_utilization_percent_mean", self.gpu_utilization_percent_mean);
    visit("cpu_utilization_percent_mean", self.cpu_utilization_percent_mean);
    visit("energy_joules", self.energy_joules);
    visit("loss_first", self.loss_first);
    visit("loss_last", self.loss_last);
    visit("skipped_steps", self.skipped_steps);
    visit("non_finite_steps", self.non_finite_steps);
    visit("validation_loss_first", self.validation_loss_first);
    visit("validation_loss_last", self.validation_loss_last);
    visit("validation_loss_best", self.validation_loss_best);
    visit("token_accuracy_last", self.token_accuracy_last);
    visit("checkpoint_write_time_ms_median", self.checkpoint_write_time_ms_median);
    visit("total_time_ms", self.total_time_ms);
    visit("start_up_time_ms", self.start_up_time_ms);
  }
};

// The same for one rank: its own step times, its largest memory figures over all steps.
struct RankSummary {
  std::optional<int64_t> steps;
  std::optional<double> step_time_ms_median;
  std::optional<int64_t> memory_allocated_bytes_forward;
  std::optional<int64_t> memory_reserved_bytes_forward;
  std::optional<int64_t> memory_allocated_bytes_max;
  std::optional<int64_t> memory_reserved_bytes_max;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("steps", self.steps);
    visit("step_time_ms_median", self.step_time_ms_median);
    visit("memory_allocated_bytes_forward", self.memory_allocated_bytes_forward);
    visit("memory_reserved_bytes_forward", self.memory_reserved_bytes_forward);
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max);
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max);
  }
};

}  // namespace fsdp
