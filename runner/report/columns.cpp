#include "runner/report/columns.h"

#include "runner/report/column_values.h"
#include "runner/report/figures.h"

namespace fsdp {
namespace {

using enum Alignment;

// A member of the run divided by the baseline's.
template <typename T>
std::optional<double> relative(const ReportRow& row, std::optional<T> AttemptSummary::*member) {
  if (!row.baseline || !(row.run->*member) || !(row.baseline->*member)) return std::nullopt;
  const auto denominator = static_cast<double>(*(row.baseline->*member));
  if (denominator == 0) return std::nullopt;
  return static_cast<double>(*(row.run->*member)) / denominator;
}

std::optional<double> relative_speed(const ReportRow& row) {
  return relative(row, &AttemptSummary::tokens_per_second);
}

std::optional<double> relative_memory(const ReportRow& row) {
  return relative(row, &AttemptSummary::memory_allocated_bytes_max);
}

std::string batch(const ReportRow& row) {
  return std::to_string(row.run->batch_size_per_rank) + "x" +
         std::to_string(row.run->gradient_accumulation_steps);
}

std::string step_time(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  if (!run.step_time_ms_median) return "-";
  std::string text = three_digits(*run.step_time_ms_median);
  if (run.step_time_ms_p25 && run.step_time_ms_p75) {
    text += " ±" + three_digits(*run.step_time_ms_p75 - *run.step_time_ms_p25);
  }
  return text;
}

std::string loss(std::optional<double> value) {
  char buffer[32];
  if (!value) return "-";
  std::snprintf(buffer, sizeof(buffer), "%.4f", *value);
  return buffer;
}

std::string losses(const ReportRow& row) {
  if (!row.run->steps || *row.run->steps == 0) return "-";
  return loss(row.run->loss_first) + " -> " + loss(row.run->loss_last);
}

bool has_validation(const ComparisonRow& run) {
  return run.validation_loss_first || run.token_accuracy_last;
}

// "4.1000 -> 2.5000", and the best when that is another one.
std::string validation_losses(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  if (!has_validation(run)) return "-";
  std::string text = loss(run.validation_loss_first) + " -> " + loss(run.validation_loss_last);
  if (run.validation_loss_best && run.validation_loss_best != run.validation_loss_last &&
      run.validation_loss_best != run.validation_loss_first) {
    text += " (best " + loss(run.validation_loss_best) + ")";
  }
  return text;
}

std::string token_accuracy(const ReportRow& row) {
  char buffer[32];
  if (!row.run->token_accuracy_last) return "-";
  std::snprintf(buffer, sizeof(buffer), "%.1f %%", 100 * *row.run->token_accuracy_last);
  return buffer;
}

bool has_skipped(const ComparisonRow& run) { return run.skipped_steps.value_or(0) > 0; }

std::string skipped(const ReportRow& row) {
  return row.run->skipped_steps ? std::to_string(*row.run->skipped_steps) : "-";
}

std::vector<Column> run_columns() {
  using Run = ComparisonRow;
  return {
      {"experiment", "", "Name of the experiment.", kLeft, of(&Run::experiment), {}},
      {"position", "", "Place in the experiment, from 0.", kRight, of(&Run::position), {}},
      {"point", "point", "Name of the point.", kLeft, of(&Run::point),
       [](auto& row) { return row.run->point; }},
      {"run", "", "Number of the run in the database.", kRight, of(&Run::run), {}},
      {"hash8", "", "First digits of the run's hash.", kLeft, of(&Run::hash8), {}},
      {"attempt", "", "Number of the newest attempt.", kRight, of(&Run::attempt), {}},
      {"folder", "", "The run's folder, in the results folder.", kLeft, of(&Run::folder), {}},
      {"strategy", "strategy", "single, ddp or fsdp; for people with sharding and +offload.", kLeft,
       of(&Run::strategy), strategy_text},
      {"sharding",
       "",
       "What fsdp shards, and within how many ranks; else empty.",
       kLeft,
       of(&Run::sharding),
       {}},
      {"wrap", "", "What is gathered, and reduced, together.", kLeft, of(&Run::wrap), {}},
      {"prefetch", "", "Units that are gathered ahead.", kRight, of(&Run::prefetch), {}},
      {"limit_all_gathers",
       "",
       "1: a gather waits for the memory of a unit before it; 0: not.",
       kRight,
       of(&Run::limit_all_gathers),
       {}},
      {"offload", "", "What lives in CPU memory.", kLeft, of(&Run::offload), {}},
      {"ranks", "ranks", "Processes.", kRight, of(&Run::ranks),
       [](auto& row) { return std::to_string(row.run->ranks); }},
      {"batch_size_per_rank", "batch",
       "Sequences per rank and micro-batch; for people with x accumulation.", kRight,
       of(&Run::batch_size_per_rank), batch},
      {"gradient_accumulation_steps",
       "",
       "Micro-batches per optimizer step.",
       kRight,
       of(&Run::gradient_accumulation_steps),
       {}},
      {"total_batch",
       "",
       "Sequences per optimizer step, all ranks.",
       kRight,
       of(&Run::total_batch),
       {}},
      {"precision", "", "Number format of training.", kLeft, of(&Run::precision), {}},
      {"optimizer", "", "Kind of the optimizer.", kLeft, of(&Run::optimizer), {}},
      {"schedule", "", "Kind of the learning rate's schedule.", kLeft, of(&Run::schedule), {}},
      {"device", "", "cpu or cuda.", kLeft, of(&Run::device), {}},
      {"device_name", "", "Name of rank 0's processor or GPU.", kLeft, of(&Run::device_name), {}},
      {"sequence_length", "", "Tokens per sequence.", kRight, of(&Run::sequence_length), {}},
      {"activation_checkpointing_every",
       "",
       "Every which block is recomputed; 0: none.",
       kRight,
       of(&Run::activation_checkpointing_every),
       {}},
      {"warmup_steps_excluded",
       "",
       "First steps left out of step-time figures.",
       kRight,
       of(&Run::warmup_steps_excluded),
       {}},
      {"memory_allocated_bytes_max", "allocated\nGiB",
       "Peak allocated memory of the rank with most; for people least-most.", kRight,
       of(&Run::memory_allocated_bytes_max),
       [](auto& row) {
         return gibibytes(row.run->memory_allocated_bytes_min, row.run->memory_allocated_bytes_max);
       }},
      {"memory_allocated_bytes_min",
       "",
       "The same of the rank with least.",
       kRight,
       of(&Run::memory_allocated_bytes_min),
       {}},
      {"memory_reserved_bytes_max", "reserved\nGiB",
       "Peak reserved memory of the rank with most; for people least-most.", kRight,
       of(&Run::memory_reserved_bytes_max),
       [](auto& row) {
         return gibibytes(row.run->memory_reserved_bytes_min, row.run->memory_reserved_bytes_max);
       }},
      {"memory_reserved_bytes_min",
       "",
       "The same of the rank with least.",
       kRight,
       of(&Run::memory_reserved_bytes_min),
       {}},
      {"step_time_ms_median", "step time\nms",
       "Median time of an optimizer step; for people ± interquartile range.", kRight,
       of(&Run::step_time_ms_median), step_time},
      {"step_time_ms_p25", "", "Lower quartile.", kRight, of(&Run::step_time_ms_p25), {}},
      {"step_time_ms_p75", "", "Upper quartile.", kRight, of(&Run::step_time_ms_p75), {}},
      {"steps_per_second", "steps/s", "1000 / step_time_ms_median.", kRight,
       of(&Run::steps_per_second),
       [](auto& row) { return three_digits(row.run->steps_per_second); }},
      {"micro_batches_per_second",
       "",
       "steps_per_second x gradient_accumulation_steps.",
       kRight,
       of(&Run::micro_batches_per_second),
       {}},
      {"tokens_per_second", "tokens/s", "Tokens of all ranks per second, at the median step time.",
       kRight, of(&Run::tokens_per_second),
       [](auto& row) { return three_digits(row.run->tokens_per_second); }},
      {"tokens_per_second_ratio", "tokens/s\nratio", "tokens_per_second / the first row's.", kRight,
       [](auto& row) { return to_value(relative_speed(row)); },
       [](auto& row) { return ratio(relative_speed(row)); }},
      {"memory_allocated_ratio", "memory\nratio", "memory_allocated_bytes_max / the first row's.",
       kRight, [](auto& row) { return to_value(relative_memory(row)); },
       [](auto& row) { return ratio(relative_memory(row)); }},
      {"total_time_ms", "total\ntime", "From the attempt's start to the end of its last rank.",
       kRight, of(&Run::total_time_ms), [](auto& row) { return duration(row.run->total_time_ms); }},
      {"start_up_time_ms", "start-up\ntime", "From the attempt's start to its first step.", kRight,
       of(&Run::start_up_time_ms), [](auto& row) { return duration(row.run->start_up_time_ms); }},
      {"resumed_from_step",
       "",
       "Step of the checkpoint that the attempt went on from; 0: none.",
       kRight,
       of(&Run::resumed_from_step),
       {}},
      {"steps",
       "",
       "Optimizer steps that all ranks did in this attempt.",
       kRight,
       of(&Run::steps),
       {}},
      {"loss_first", "", "Loss of the attempt's first step.", kRight, of(&Run::loss_first), {}},
      {"loss_last", "loss", "Loss of the last step; for people first -> last.", kRight,
       of(&Run::loss_last), losses},
      {"skipped_steps", "skipped\nsteps", "Steps that left the parameters as they are.", kRight,
       of(&Run::skipped_steps), skipped, has_skipped},
      {"non_finite_steps",
       "",
       "Steps whose loss was NaN or infinite.",
       kRight,
       of(&Run::non_finite_steps),
       {}},
      {"validation_loss_first",
       "",
       "Validation loss of the attempt's first evaluation.",
       kRight,
       of(&Run::validation_loss_first),
       {}},
      {"validation_loss_last", "validation loss",
       "Validation loss of the last evaluation; for people first -> last.", kRight,
       of(&Run::validation_loss_last), validation_losses, has_validation},
      {"validation_loss_best",
       "",
       "The least validation loss.",
       kRight,
       of(&Run::validation_loss_best),
       {}},
      {"token_accuracy_last", "token\naccuracy",
       "Part of the validation set's tokens that were the most likely ones, 0 to 1.", kRight,
       of(&Run::token_accuracy_last), token_accuracy, has_validation},
      {"checkpoint_write_time_ms_median",
       "",
       "Median time of writing a checkpoint.",
       kRight,
       of(&Run::checkpoint_write_time_ms_median),
       {}},
      {"series", "", "The point without the number of its repeat.", kLeft, of(&Run::series), {}},
      {"repeat",
       "",
       "Number of the repeat within its series, from 0.",
       kRight,
       of(&Run::repeat),
       {}},
      {"data_digest",
       "",
       "Digest of the contents of all input files.",
       kLeft,
       of(&Run::data_digest),
       {}},
      {"loss_digest",
       "",
       "Equal for runs whose losses must be equal.",
       kLeft,
       of(&Run::loss_digest),
       {}},
      {"started_unix_ms",
       "",
       "When the attempt was started.",
       kRight,
       of(&Run::started_unix_ms),
       {}},
      {"family", "", "Runs that differ in one doubled key only.", kLeft, of(&Run::family), {}},
      {"family_key", "", "The doubled key.", kLeft, of(&Run::family_key), {}},
      {"family_value", "", "Value of the doubled key.", kRight, of(&Run::family_value), {}},
      {"memory_limit_gib",
       "",
       "Limit of the allocator; 0: none.",
       kRight,
       of(&Run::memory_limit_gib),
       {}},
      {"compare",
       "",
       "What the experiment compares by: loss or throughput.",
       kLeft,
       of(&Run::compare),
       {}},
      {"host", "", "Host that the attempt was started on.", kLeft, of(&Run::host), {}},
      {"git_commit", "", "Commit of the code.", kLeft, of(&Run::git_commit), {}},
      {"git_dirty",
       "",
       "1: tracked files were changed since the commit; 0: not.",
       kRight,
       of(&Run::git_dirty),
       {}},
      {"trainer_digest", "", "Digest of the trainer.", kLeft, of(&Run::trainer_digest), {}},
      {"torch_version", "", "Version of libtorch.", kLeft, of(&Run::torch_version), {}},
      {"cuda_version", "", "Version of CUDA.", kLeft, of(&Run::cuda_version), {}},
      {"driver_version", "", "Version of the GPU's driver.", kLeft, of(&Run::driver_version), {}},
      {"device_memory_bytes",
       "",
       "Memory that rank 0 may use.",
       kRight,
       of(&Run::device_memory_bytes),
       {}},
      {"other_processes",
       "",
       "Processes of others on a rank's GPU when it started; most of any rank.",
       kRight,
       of(&Run::other_processes),
       {}},
      {"steps_planned",
       "",
       "Optimizer steps of the whole run.",
       kRight,
       of(&Run::steps_planned),
       {}},
      {"memory_allocated_bytes_forward_max",
       "",
       "Allocated memory at the end of forward, of the rank with most.",
       kRight,
       of(&Run::memory_allocated_bytes_forward_max),
       {}},
      {"memory_allocated_bytes_forward_min",
       "",
       "The same of the rank with least.",
       kRight,
       of(&Run::memory_allocated_bytes_forward_min),
       {}},
      {"memory_reserved_bytes_forward_max",
       "",
       "Reserved memory at the end of forward, of the rank with most.",
       kRight,
       of(&Run::memory_reserved_bytes_forward_max),
       {}},
      {"communication_time_ms_median",
       "",
       "Median time of collectives in a step, of each step's slowest rank.",
       kRight,
       of(&Run::communication_time_ms_median),
       {}},
      {"gpu_utilization_percent_mean",
       "",
       "Mean utilization of the run's own GPUs.",
       kRight,
       of(&Run::gpu_utilization_percent_mean),
       {}},
      {"cpu_utilization_percent_mean",
       "",
       "Mean utilization of the nodes' processors.",
       kRight,
       of(&Run::cpu_utilization_percent_mean),
       {}},
      {"energy_joules", "", "Energy of the run's own GPUs.", kRight, of(&Run::energy_joules), {}},
      {"status", "status", "How the run stands.", kLeft, of(&Run::status),
       [](auto& row) { return std::string(name_of(row.run->status)); }},
      {"reason", "", "Why, when there is something to say.", kLeft, of(&Run::reason), {}},
      {"reason_rank", "", "The rank whose log says more.", kRight, of(&Run::reason_rank), {}},
  };
}

}  // namespace

std::span<const Column> columns() {
  static const std::vector<Column> all = run_columns();
  return all;
}

}  // namespace fsdp
