#include "runner/report/column_values.h"
#include "runner/report/figures.h"

namespace fsdp {
namespace {

using enum Alignment;
using Run = ComparisonRow;

std::string loss(std::optional<double> value) { return value ? decimals(*value, 4) : "-"; }

std::string losses(const ReportRow& row) {
  if (row.run->steps.value_or(0) == 0) return "-";
  return loss(row.run->loss_first) + " -> " + loss(row.run->loss_last);
}

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

std::string count(std::optional<int64_t> value) { return value ? std::to_string(*value) : "-"; }

bool has_skipped(const ReportRow& row) { return row.run->skipped_steps.value_or(0) > 0; }

// Rows that are compared by throughput may differ in their number of steps.
std::string status(const ReportRow& row) {
  return row.is_series ? row.series->status_text() : std::string(name_of(row.run->status));
}

}  // namespace

std::vector<Column> outcome_columns() {
  return {
      {"resumed_from_step", "", "Step of the checkpoint that the attempt went on from; 0: none.",
       kRight, of(&Run::resumed_from_step)},
      {"steps_planned", "", "Optimizer steps of the whole run.", kRight, of(&Run::steps_planned)},
      {"steps", "steps", "Optimizer steps that all ranks did in this attempt.", kRight,
       of(&Run::steps), [](auto& row) { return count(row.run->steps); }, is_about_throughput},
      {"loss_first", "", "Loss of the run's first step.", kRight, of(&Run::loss_first)},
      {"loss_last", "loss", "Loss of the last step; for people first -> last.", kRight,
       of(&Run::loss_last), losses},
      {"skipped_steps", "skipped\nsteps", "Steps that left the parameters as they are.", kRight,
       of(&Run::skipped_steps), [](auto& row) { return count(row.run->skipped_steps); },
       has_skipped},
      {"non_finite_steps", "", "Steps whose loss was NaN or infinite.", kRight,
       of(&Run::non_finite_steps)},
      {"validation_loss_first", "", "Validation loss of the run's first evaluation.", kRight,
       of(&Run::validation_loss_first)},
      {"validation_loss_last", "validation loss",
       "Validation loss of the last evaluation; for people first -> last.", kRight,
       of(&Run::validation_loss_last), validation_losses, has_validation},
      {"validation_loss_best", "", "The least validation loss.", kRight,
       of(&Run::validation_loss_best)},
      {"token_accuracy_last", "token\naccuracy",
       "Part of the validation set's tokens that were the most likely ones, 0 to 1.", kRight,
       of(&Run::token_accuracy_last), token_accuracy, has_validation},
      {"checkpoint_write_time_ms_median", "", "Median time of writing a checkpoint.", kRight,
       of(&Run::checkpoint_write_time_ms_median)},
      {"status", "status", "How the run stands; of a series how many stand how.", kLeft,
       [](auto& row) { return to_value(status(row)); }, status},
      {"skipped_lines", "", "Lines of the ranks' events that could not be read.", kRight,
       of(&Run::skipped_lines)},
      {"reason", "", "Why, when there is something to say.", kLeft, of(&Run::reason)},
      {"reason_rank", "", "The rank whose log says more.", kRight, of(&Run::reason_rank)},
  };
}

}  // namespace fsdp
