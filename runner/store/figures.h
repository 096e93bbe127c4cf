#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "contract/record/step_account.h"

// The figures of attempts and ranks, and their descriptions for readers.
namespace fsdp {

enum class Better { kNeither, kLess, kMore };
enum class Shown { kAlways, kWhereKnown };

// The description of a row's member for readers. In visit_fields, its parts follow the member. A
// described member is a column of every report; users can filter, group and sort by it.
struct Meaning {
  const char* sentence;      // the meaning and scope; the unit ends the member's name
  const char* heading = "";  // '\n' breaks lines in tables; empty: not a usual column
  Better better = Better::kNeither;
  Shown shown = Shown::kAlways;  // among the usual columns
};

// A sentence for readers on each part of a step's time.
inline constexpr std::array<const char*, kTimeParts> kTimePartSentences{
    "Matrix products with weights in forward.",
    "Matrix products with weights in backward, those of recomputation too.",
    "Attention in forward.",
    "Attention in backward.",
    "What else modules compute in forward.",
    "What else modules compute in backward.",
    "Waits for whole parameters in forward, beside which nothing is computed.",
    "Waits for whole parameters in backward, beside which nothing is computed.",
    "Waits for shards of gradients, beside which nothing is computed.",
    "Waits for sums over ranks, beside which nothing is computed.",
    "The part of all these waits in which another rank had not come yet.",
    "Copies between a GPU and the host, and waits for them.",
    "Conversions of parameters and gradients, and sums of gradients over micro-batches.",
    "The optimizer's step, and waits for it.",
    "Norms of gradients.",
    "Reading tokens.",
    "All the rest of the step."};

// A step takes as long as its slowest rank. Medians and quartiles (linear interpolation between
// neighbours) cover the steps that every rank did, without the first `warmup_steps_excluded`. If no
// more steps were done, they cover all steps. Figures are nullopt until measured. A resumed attempt
// has the times and memory of its own steps; its losses begin with the run's.
//
// To add a figure, such as energy_joules: add the member, and its line with a Meaning. SQL and
// every report's columns follow. Compute it from events in runner/store/attempt_reports.cpp, and
// test that in tests/runner/store/attempt_reports_test.cpp. Renew tests/golden/ with
// UPDATE_GOLDEN=1. A new measurement is a member in contract/record/event.h, and in
// tests/fakes/stub_trainer.cpp. After a release, add a version without text to
// runner/store/results_database.cpp.
struct AttemptSummary {
  std::optional<int64_t> memory_allocated_bytes_max;
  std::optional<int64_t> memory_allocated_bytes_min;
  std::optional<int64_t> memory_reserved_bytes_max;
  std::optional<int64_t> memory_reserved_bytes_min;
  std::optional<int64_t> memory_allocated_bytes_forward_max;
  std::optional<int64_t> memory_allocated_bytes_forward_min;
  std::optional<int64_t> memory_reserved_bytes_forward_max;
  std::optional<double> step_time_ms_median;
  std::optional<double> step_time_ms_p25;
  std::optional<double> step_time_ms_p75;
  std::optional<double> communication_time_ms_median;
  std::optional<double> steps_per_second;
  std::optional<double> micro_batches_per_second;
  std::optional<double> tokens_per_second;
  std::optional<double> tokens_per_second_per_rank;
  std::optional<double> unpadded_tokens_per_second;
  std::optional<double> trained_tokens_per_second;
  std::optional<int64_t> total_time_ms;
  std::optional<double> start_up_time_ms;
  std::optional<double> gpu_utilization_percent_mean;
  std::optional<double> cpu_utilization_percent_mean;
  std::optional<double> cpu_time_others_percent;
  std::optional<double> run_queue_wait_percent;
  std::optional<double> cpu_cores_used_max;
  std::optional<int64_t> memory_node_bytes_max;
  std::optional<double> energy_joules;
  std::optional<int64_t> steps;
  std::optional<double> loss_first;  // nullopt if not finite, as for the other losses
  std::optional<double> loss_last;
  std::optional<int64_t> skipped_steps;
  std::optional<int64_t> non_finite_steps;
  std::optional<double> validation_loss_first;
  std::optional<double> validation_loss_last;
  std::optional<double> validation_loss_best;
  std::optional<double> token_accuracy_last;
  std::optional<double> checkpoint_write_time_ms_median;
  std::optional<double> model_tflops_per_second_per_rank;
  std::optional<double> mfu_percent;
  std::optional<double> hfu_percent;
  // The account of one step of one rank. The step has the median time of the accounted steps. The
  // other ranks waited for this rank.
  std::array<std::optional<double>, kTimeParts> time_by_part;
  std::optional<double> exposed_all_gather_ms;
  std::optional<double> hidden_communication_ms;
  std::optional<int64_t> account_rank;
  std::optional<double> slowest_rank_extra_ms;

  template <typename Self, typename Visitor>
  static void visit_memory(Self& self, Visitor& visit) {
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max,
          "Peak allocated memory of the rank with most; for people least-most.", "allocated\nGiB",
          Better::kLess);
    visit("memory_allocated_bytes_min", self.memory_allocated_bytes_min,
          "Peak allocated memory of the rank with least.");
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max,
          "Peak reserved memory of the rank with most; on the CPU, anonymous resident memory. For "
          "people least-most.",
          "reserved\nGiB", Better::kLess);
    visit("memory_reserved_bytes_min", self.memory_reserved_bytes_min,
          "Peak reserved memory of the rank with least.");
    visit("memory_allocated_bytes_forward_max", self.memory_allocated_bytes_forward_max,
          "Most memory allocated after a step's last forward, of the rank with most.");
    visit("memory_allocated_bytes_forward_min", self.memory_allocated_bytes_forward_min,
          "Most memory allocated after a step's last forward, of the rank with least.");
    visit("memory_reserved_bytes_forward_max", self.memory_reserved_bytes_forward_max,
          "Most memory reserved after a step's last forward, of the rank with most.");
  }

  template <typename Self, typename Visitor>
  static void visit_speed_and_cost(Self& self, Visitor& visit) {
    visit("step_time_ms_median", self.step_time_ms_median,
          "Median time of a step, of its slowest rank; for people ± interquartile range.",
          "step time\nms", Better::kLess);
    visit("step_time_ms_p25", self.step_time_ms_p25,
          "Lower quartile of the time of a step, of its slowest rank.");
    visit("step_time_ms_p75", self.step_time_ms_p75,
          "Upper quartile of the time of a step, of its slowest rank.");
    visit("communication_time_ms_median", self.communication_time_ms_median,
          "Median time in a step with a collective under way, of its slowest rank.",
          "communication\nms", Better::kLess, Shown::kWhereKnown);
    visit("steps_per_second", self.steps_per_second, "1000 / step_time_ms_median.", "steps/s",
          Better::kMore);
    visit("micro_batches_per_second", self.micro_batches_per_second,
          "steps_per_second x gradient_accumulation_steps.", "", Better::kMore);
    visit("tokens_per_second", self.tokens_per_second,
          "Tokens that all ranks read per second, those that fill sequences up included, at the "
          "median step time.",
          "tokens/s", Better::kMore);
    visit("tokens_per_second_per_rank", self.tokens_per_second_per_rank,
          Meaning{"tokens_per_second / ranks: what one GPU, or one process on the CPU, gets done.",
                  "", Better::kMore});
    visit("unpadded_tokens_per_second", self.unpadded_tokens_per_second,
          "Tokens that all ranks read per second, without those that fill sequences up.", "",
          Better::kMore);
    visit("trained_tokens_per_second", self.trained_tokens_per_second,
          "Tokens that all ranks are trained on per second: the unmasked labels.", "",
          Better::kMore);
    visit("total_time_ms", self.total_time_ms,
          "From the start of a rank's process to its last event, of the longest rank.",
          "total\ntime", Better::kLess);
    visit("start_up_time_ms", self.start_up_time_ms,
          "From the start of rank 0's process to its first step.", "start-up\ntime", Better::kLess);
    visit("gpu_utilization_percent_mean", self.gpu_utilization_percent_mean,
          "Mean utilization of the run's own GPUs, over the device samples.", "GPU\n%",
          Better::kMore, Shown::kWhereKnown);
    visit("cpu_utilization_percent_mean", self.cpu_utilization_percent_mean,
          "Mean utilization of the nodes' processors, over the device samples.", "CPU\n%",
          Better::kNeither, Shown::kWhereKnown);
    visit("cpu_time_others_percent", self.cpu_time_others_percent,
          "CPU time that other processes took on a rank's CPUs during the measured steps, in "
          "percent of these CPUs' time; the largest value of any rank.",
          "", Better::kLess);
    visit("run_queue_wait_percent", self.run_queue_wait_percent,
          "Time that a rank's threads waited for a CPU during the measured steps, in percent of "
          "these steps' time, of the rank with most; two threads that always wait are 200.",
          "", Better::kLess);
    visit("cpu_cores_used_max", self.cpu_cores_used_max,
          "CPU cores that a rank kept busy during the measured steps, of the rank with most.", "",
          Better::kNeither);
    visit("memory_node_bytes_max", self.memory_node_bytes_max,
          "Host memory of a node's ranks, the sum of their peaks, of the node with most; known of "
          "runs whose ranks finished.",
          "", Better::kLess);
    visit("energy_joules", self.energy_joules,
          "Energy of the run's own GPUs, from their power samples.", "energy\nkJ", Better::kLess,
          Shown::kWhereKnown);
  }

  template <typename Self, typename Visitor>
  static void visit_outcome(Self& self, Visitor& visit) {
    visit("steps", self.steps, "Optimizer steps that all ranks did in this attempt.", "steps");
    visit("loss_first", self.loss_first, "Loss of the run's first step.");
    visit(
        "loss_last", self.loss_last,
        "Loss of the last step, the mean over all unmasked tokens of the global batch; for people "
        "first -> last.",
        "loss", Better::kLess);
    visit("skipped_steps", self.skipped_steps, "Steps that left the parameters as they are.",
          "skipped\nsteps", Better::kLess);
    visit("non_finite_steps", self.non_finite_steps, "Steps whose loss was NaN or infinite.", "",
          Better::kLess);
    visit("validation_loss_first", self.validation_loss_first,
          "Validation loss of the run's first evaluation.");
    visit("validation_loss_last", self.validation_loss_last,
          "Validation loss of the last evaluation; for people first -> last.", "validation loss",
          Better::kLess);
    visit("validation_loss_best", self.validation_loss_best, "The least validation loss.", "",
          Better::kLess);
    visit("token_accuracy_last", self.token_accuracy_last,
          "Part of the validation set's tokens that the model found the most likely, 0 to 1.",
          "token\naccuracy", Better::kMore, Shown::kWhereKnown);
    visit("checkpoint_write_time_ms_median", self.checkpoint_write_time_ms_median,
          "Median time of writing a checkpoint.", "", Better::kLess);
  }

  template <typename Self, typename Visitor>
  static void visit_utilization(Self& self, Visitor& visit) {
    visit(
        "model_tflops_per_second_per_rank", self.model_tflops_per_second_per_rank,
        Meaning{"Floating point operations of a rank's products per second, forward and backward, "
                "in 10^12, tokens that fill sequences up included, at the median step time.",
                "", Better::kMore});
    visit("mfu_percent", self.mfu_percent,
          "Model FLOPs utilization: model_tflops_per_second_per_rank in percent of the GPU's dense "
          "peak, in the type that the run computes in; if the peak is known.",
          "MFU\n%", Better::kMore, Shown::kWhereKnown);
    visit("hfu_percent", self.hfu_percent,
          "Hardware FLOPs utilization: like mfu_percent, but also counts what activation "
          "checkpointing computes again.",
          "", Better::kMore);
  }

  template <typename Self, typename Visitor>
  static void visit_account(Self& self, Visitor& visit) {
    for (size_t i = 0; i < kTimeParts; ++i) {
      visit(TimeByPart::field(i), self.time_by_part[i],
            Meaning{kTimePartSentences[i], "", Better::kLess});
    }
    visit("exposed_all_gather_ms", self.exposed_all_gather_ms,
          "Waits for whole parameters, beside which nothing is computed; forward and backward.", "",
          Better::kLess);
    visit("hidden_communication_ms", self.hidden_communication_ms,
          "Time of the accounted step in which collectives were under way beside computation.");
    visit("account_rank", self.account_rank,
          "The rank whose step these parts add up to: the one that the others waited for.");
    visit("slowest_rank_extra_ms", self.slowest_rank_extra_ms,
          "How much longer this rank works in a step than the median of the others, without waits "
          "for other ranks.",
          "", Better::kLess);
  }

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit_memory(self, visit);
    visit_speed_and_cost(self, visit);
    visit_outcome(self, visit);
    visit_utilization(self, visit);
    visit_account(self, visit);
  }
};

// The figures of one rank: its own step times, its largest memory figures over all steps.
struct RankSummary {
  std::optional<int64_t> memory_allocated_bytes_max;
  std::optional<int64_t> memory_allocated_bytes_forward;
  std::optional<int64_t> memory_reserved_bytes_max;
  std::optional<int64_t> memory_reserved_bytes_forward;
  std::optional<double> step_time_ms_median;
  std::optional<int64_t> steps;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("memory_allocated_bytes_max", self.memory_allocated_bytes_max, "Peak allocated memory.",
          "allocated\npeak GiB", Better::kLess);
    visit("memory_allocated_bytes_forward", self.memory_allocated_bytes_forward,
          "Most memory allocated after a step's last forward.", "allocated after\nforward GiB",
          Better::kLess);
    visit("memory_reserved_bytes_max", self.memory_reserved_bytes_max,
          "Peak reserved memory; on the CPU, anonymous resident memory.", "reserved\npeak GiB",
          Better::kLess);
    visit("memory_reserved_bytes_forward", self.memory_reserved_bytes_forward,
          "Most memory reserved after a step's last forward.", "reserved after\nforward GiB",
          Better::kLess);
    visit("step_time_ms_median", self.step_time_ms_median, "Median time of this rank's steps.",
          "step time\nms", Better::kLess);
    visit("steps", self.steps, "Optimizer steps it did in this attempt.", "steps");
  }
};

}  // namespace fsdp
