#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runner/report/member_columns.h"
#include "runner/report/number_text.h"
#include "runner/report/prediction_errors.h"
#include "runner/report/ratio_columns.h"
#include "runner/report/speeds.h"

// The columns of runs and ranks. Some are members, others are computed from several figures. Some
// have a text for people that differs from their value.
namespace fsdp {
namespace {

using enum Alignment;

// --- repeats ---

std::string repeats(const ReportRow& row) {
  const size_t finished = row.series->finished_count;
  const size_t all = row.series->runs.size();
  return finished == all ? std::to_string(all) : fmt::format("{} of {}", finished, all);
}

std::vector<Column> repeats_columns() {
  return {{"repeats", "repeats", "Runs of the series; for people: that finished, of all.", kRight,
           [](auto& row) { return to_value(std::ssize(row.series->runs)); }, repeats,
           [](auto& row) { return row.series->runs.size() > 1; }}};
}

// --- reasons to doubt a speed ---

std::string doubt(const ReportRow& row) {
  return row.is_series ? doubt_of(*row.series) : doubt_of(*row.run);
}

std::vector<Column> doubt_columns() {
  return {
      {"speed_doubt", "speed from",
       "What the speed rests on where that is too little to compare it: too few steps after the "
       "warm-up, or a busy host; else empty.",
       kLeft, [](auto& row) { return to_value(doubt(row)); }, doubt,
       [](auto& row) { return !doubt(row).empty(); }}};
}

// --- cost ---

std::optional<double> training_time_ms(const ReportRow& row) {
  if (!row.run->total_time_ms || !row.run->start_up_time_ms) return std::nullopt;
  return static_cast<double>(*row.run->total_time_ms) - *row.run->start_up_time_ms;
}

// Returns the number of GPUs times the hours of their use. nullopt on the CPU.
std::optional<double> gpu_hours(const ReportRow& row) {
  constexpr double kMillisecondsPerHour = 3'600'000;
  if (row.run->device != DeviceKind::kCuda || !row.run->total_time_ms) return std::nullopt;
  return static_cast<double>(row.run->ranks) * static_cast<double>(*row.run->total_time_ms) /
         kMillisecondsPerHour;
}

std::vector<Column> cost_columns() {
  return {
      {"training_time_ms", "", "total_time_ms - start_up_time_ms: from the first step on.", kRight,
       [](auto& row) { return to_value(training_time_ms(row)); }},
      {"gpu_hours",
       "GPU-\nhours",
       "ranks x total_time_ms, of a run on GPUs.",
       kRight,
       [](auto& row) { return to_value(gpu_hours(row)); },
       {},
       [](auto& row) { return gpu_hours(row).has_value(); }},
  };
}

// --- predictions ---

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:+.1f} %", *value) : "-";
}

std::string predicted(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  return fmt::format("{} GiB, {} ms", gibibytes(run.memory_allocated_bytes_predicted),
                     three_digits(run.step_time_ms_predicted));
}

std::string errors(const ReportRow& row) {
  return percent(memory_error_percent(*row.run)) + ", " +
         percent(step_time_error_percent(*row.run));
}

// Returns a text column. Its value is absent if nothing was predicted.
Column text_of_predictions(const char* name, const char* documentation,
                           std::string (*text)(const ReportRow&)) {
  return {name, "", documentation, kRight, [text](auto& row) {
            return row.run->memory_allocated_bytes_predicted ? Value(text(row)) : Value();
          }};
}

std::vector<Column> prediction_columns() {
  return {
      {"memory_error_percent", "",
       "memory_allocated_bytes_predicted against memory_allocated_bytes_max, of runs that "
       "finished; "
       "above 0: too much.",
       kRight, [](auto& row) { return to_value(memory_error_percent(*row.run)); }},
      {"step_time_error_percent", "",
       "step_time_ms_predicted against step_time_ms_median, of runs that finished.", kRight,
       [](auto& row) { return to_value(step_time_error_percent(*row.run)); }},
      text_of_predictions("predicted", "Memory and step time as planned before, for people.",
                          predicted),
      text_of_predictions("error", "What both are off by, for people; above 0: too much.", errors),
  };
}

// --- texts for people ---

// True if rows are compared by throughput. They may differ in their steps and batches.
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

std::string step_time(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  const std::string text = three_digits(run.step_time_ms_median);
  if (!run.step_time_ms_median || !run.step_time_ms_p25 || !run.step_time_ms_p75) return text;
  const double spread = *run.step_time_ms_p75 - *run.step_time_ms_p25;
  return std::isnan(spread) ? text : text + " ±" + three_digits(spread);
}

std::string losses(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  if (!run.has_losses()) return "-";
  return loss_text(run.loss_first, true) + " -> " + loss_text(run.loss_last, true);
}

bool has_validation(const ReportRow& row) {
  return row.run->validation_loss_first || row.run->token_accuracy_last;
}

// "4.1000 -> 2.5000", and the best if it is neither of them.
std::string validation_losses(const ReportRow& row) {
  const ComparisonRow& run = *row.run;
  if (!has_validation(row)) return "-";
  const std::string text = loss_text(run.validation_loss_first, true) + " -> " +
                           loss_text(run.validation_loss_last, true);
  const std::optional<double>& best = run.validation_loss_best;
  const bool is_another =
      best && best != run.validation_loss_last && best != run.validation_loss_first;
  return is_another ? text + " (best " + loss_text(best, true) + ")" : text;
}

std::string token_accuracy(const ReportRow& row) {
  const std::optional<double>& accuracy = row.run->token_accuracy_last;
  return accuracy ? decimals(100 * *accuracy, 1) + " %" : "-";
}

struct OwnText {
  const char* column;
  std::string (*text)(const ReportRow&) = nullptr;   // null: the usual one
  bool (*is_shown_for)(const ReportRow&) = nullptr;  // null: the usual rows
};

constexpr OwnText kOwnTexts[] = {
    {"strategy", strategy},
    {"batch_size_per_rank",
     [](auto& row) {
       return fmt::format("{}x{}", row.run->batch_size_per_rank,
                          row.run->gradient_accumulation_steps);
     }},
    {"total_batch", nullptr, is_about_throughput},
    {"memory_allocated_bytes_max",
     [](auto& row) {
       const std::string limit = too_little_memory(row);
       if (!limit.empty()) return limit;
       return gibibytes(row.run->memory_allocated_bytes_min, row.run->memory_allocated_bytes_max);
     }},
    {"memory_reserved_bytes_max",
     [](auto& row) {
       return gibibytes(row.run->memory_reserved_bytes_min, row.run->memory_reserved_bytes_max);
     }},
    {"step_time_ms_median", step_time},
    {"steps", nullptr, is_about_throughput},
    {"loss_last", losses},
    {"skipped_steps", nullptr, [](auto& row) { return row.run->skipped_steps.value_or(0) > 0; }},
    {"validation_loss_last", validation_losses, has_validation},
    {"token_accuracy_last", token_accuracy},
};

// --- together ---

auto place_of(std::vector<Column>& columns, std::string_view name) {
  return std::ranges::find(columns, name, &Column::name);
}

void insert_behind(std::vector<Column>& columns, std::string_view name,
                   const std::vector<Column>& more) {
  columns.insert(std::next(place_of(columns, name)), more.begin(), more.end());
}

std::vector<Column> columns_of_runs() {
  std::vector<Column> columns = member_columns(&ReportRow::run);
  insert_behind(columns, "repeat", repeats_columns());
  insert_behind(columns, "tokens_per_second", ratio_columns());
  insert_behind(columns, "tokens_per_second", doubt_columns());
  insert_behind(columns, "tokens_per_second_per_rank", scaling_columns());
  insert_behind(columns, "start_up_time_ms", cost_columns());
  insert_behind(columns, "step_time_ms_predicted", prediction_columns());
  for (const OwnText& own : kOwnTexts) {
    Column& column = *place_of(columns, own.column);
    if (own.text) column.text = own.text;
    if (own.is_shown_for) column.is_shown_for = own.is_shown_for;
  }
  Column& status = *place_of(columns, "status");
  status.value = [value = status.value](const ReportRow& row) {
    return row.is_series ? Value(row.series->status_text()) : value(row);
  };
  return columns;
}

std::vector<Column> columns_of_ranks() {
  std::vector<Column> columns = member_columns(&ReportRow::rank);
  std::vector<Column> settings;
  for (const char* name : {"strategy", "sharding", "offload"}) {
    settings.push_back(find_column(fsdp::columns(), name, ""));
  }
  insert_behind(columns, "attempt", settings);
  return columns;
}

}  // namespace

std::span<const Column> columns() {
  static const std::vector<Column> all = columns_of_runs();
  return all;
}

std::span<const Column> rank_columns() {
  static const std::vector<Column> all = columns_of_ranks();
  return all;
}

}  // namespace fsdp
