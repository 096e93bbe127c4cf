#include <cmath>

#include "runner/report/column_parts.h"
#include "runner/report/number_text.h"

// What people read where it is more than a column's value.
namespace fsdp {
namespace {

// Rows that are compared by throughput may differ in their steps and batches.
bool is_about_throughput(const ReportRow& row) { return row.run->compare == "throughput"; }

// "fsdp", "fsdp shard_grad_op", "ddp+offload", "fsdp+offload parameters".
std::string strategy(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  std::string text(name_of(run.strategy));
  if (!run.sharding.empty() && run.sharding != name_of(Sharding::kFullShard)) {
    text += ' ' + run.sharding;
  }
  if (run.offload != Offload::kNone) text += "+offload";
  if (run.offload == Offload::kParameters) text += " parameters";
  return text;
}

std::string batch(const ReportRow& row) {
  return std::to_string(row.run->batch_size_per_rank) + "x" +
         std::to_string(row.run->gradient_accumulation_steps);
}

std::string allocated(const ReportRow& row) {
  return gibibytes(row.run->memory_allocated_bytes_min, row.run->memory_allocated_bytes_max);
}

std::string reserved(const ReportRow& row) {
  return gibibytes(row.run->memory_reserved_bytes_min, row.run->memory_reserved_bytes_max);
}

std::string step_time(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  if (!run.step_time_ms_median) return "-";
  std::string text = three_digits(*run.step_time_ms_median);
  if (!run.step_time_ms_p25 || !run.step_time_ms_p75) return text;
  const double spread = *run.step_time_ms_p75 - *run.step_time_ms_p25;
  if (!std::isnan(spread)) text += " ±" + three_digits(spread);
  return text;
}

std::string loss(std::optional<double> value) { return value ? decimals(*value, 4) : "-"; }

std::string losses(const ReportRow& row) {
  if (row.run->steps.value_or(0) == 0) return "-";
  return loss(row.run->loss_first) + " -> " + loss(row.run->loss_last);
}

bool has_skipped(const ReportRow& row) { return row.run->skipped_steps.value_or(0) > 0; }

bool has_validation(const ReportRow& row) {
  return row.run->validation_loss_first || row.run->token_accuracy_last;
}

// "4.1000 -> 2.5000", and the best when that is another one.
std::string validation_losses(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  if (!has_validation(row)) return "-";
  std::string text = loss(run.validation_loss_first) + " -> " + loss(run.validation_loss_last);
  if (run.validation_loss_best && run.validation_loss_best != run.validation_loss_last &&
      run.validation_loss_best != run.validation_loss_first) {
    text += " (best " + loss(run.validation_loss_best) + ")";
  }
  return text;
}

std::string token_accuracy(const ReportRow& row) {
  const std::optional<double>& accuracy = row.run->token_accuracy_last;
  return accuracy ? decimals(100 * *accuracy, 1) + " %" : "-";
}

}  // namespace

std::vector<OwnText> own_texts() {
  return {
      {"strategy", strategy},
      {"batch_size_per_rank", batch},
      {"total_batch", {}, is_about_throughput},
      {"memory_allocated_bytes_max", allocated},
      {"memory_reserved_bytes_max", reserved},
      {"step_time_ms_median", step_time},
      {"steps", {}, is_about_throughput},
      {"loss_last", losses},
      {"skipped_steps", {}, has_skipped},
      {"validation_loss_last", validation_losses, has_validation},
      {"token_accuracy_last", token_accuracy},
  };
}

}  // namespace fsdp
