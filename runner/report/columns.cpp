#include "runner/report/columns.h"

#include <concepts>

#include "runner/report/figures.h"

namespace fsdp {
namespace {

using enum Alignment;

template <typename T>
Value to_value(const T& member) {
  if constexpr (is_optional<T>) {
    return member ? to_value(*member) : Value();
  } else if constexpr (NamedEnum<T>) {
    return std::string(name_of(member));
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    return to_value(member.string());
  } else if constexpr (std::same_as<T, std::string>) {
    return member.empty() ? Value() : Value(member);
  } else {
    return member;
  }
}

// The values of a member of the run or of the rank.
template <typename T, typename Owner>
auto of(T Owner::*member) {
  return [member](const ReportRow& row) {
    if constexpr (std::derived_from<ComparisonRow, Owner>) {
      return to_value(row.run->*member);
    } else {
      return to_value(row.rank->*member);
    }
  };
}

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

std::string strategy(const ReportRow& row) {
  std::string text(name_of(row.run->strategy));
  if (row.run->offload != Offload::kNone) text += "+offload";
  return text;
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
      {"strategy", "strategy", "single, ddp or fsdp; for people with +offload.", kLeft,
       of(&Run::strategy), strategy},
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
      {"steps", "", "Optimizer steps that all ranks did.", kRight, of(&Run::steps), {}},
      {"loss_first", "", "Loss of the first step.", kRight, of(&Run::loss_first), {}},
      {"loss_last", "loss", "Loss of the last step; for people first -> last.", kRight,
       of(&Run::loss_last), losses},
      {"status", "status", "How the run stands.", kLeft, of(&Run::status),
       [](auto& row) { return std::string(name_of(row.run->status)); }},
      {"reason", "", "Why, when there is something to say.", kLeft, of(&Run::reason), {}},
      {"reason_rank", "", "The rank whose log says more.", kRight, of(&Run::reason_rank), {}},
  };
}

std::vector<Column> columns_of_ranks() {
  using Rank = RankRow;
  return {
      {"experiment", "", "Name of the experiment.", kLeft, of(&Rank::experiment), {}},
      {"position", "", "Place of the run in the experiment.", kRight, of(&Rank::position), {}},
      {"point", "point", "Name of the point.", kLeft, of(&Rank::point),
       [](auto& row) { return row.rank->point; }},
      {"run", "", "Number of the run in the database.", kRight, of(&Rank::run), {}},
      {"attempt", "", "Number of the newest attempt.", kRight, of(&Rank::attempt), {}},
      {"strategy", "strategy", "single, ddp or fsdp; for people with +offload.", kLeft,
       of(&ComparisonRow::strategy), strategy},
      {"offload", "", "What lives in CPU memory.", kLeft, of(&ComparisonRow::offload), {}},
      {"rank", "rank", "The process among the run's.", kRight, of(&Rank::rank),
       [](auto& row) { return row.rank->rank ? std::to_string(*row.rank->rank) : "-"; }},
      {"host", "", "Where it ran.", kLeft, of(&Rank::host), {}},
      {"device", "device", "What it computed on.", kLeft, of(&Rank::device),
       [](auto& row) { return row.rank->device.empty() ? "-" : row.rank->device; }},
      {"device_name", "", "Name of the processor or GPU.", kLeft, of(&Rank::device_name), {}},
      {"memory_allocated_bytes_max", "allocated\npeak GiB", "Peak allocated memory.", kRight,
       of(&Rank::memory_allocated_bytes_max),
       [](auto& row) { return gibibytes(row.rank->memory_allocated_bytes_max); }},
      {"memory_allocated_bytes_forward", "allocated after\nforward GiB",
       "Most memory allocated at the end of a step's last forward.", kRight,
       of(&Rank::memory_allocated_bytes_forward),
       [](auto& row) { return gibibytes(row.rank->memory_allocated_bytes_forward); }},
      {"memory_reserved_bytes_max", "reserved\npeak GiB", "Peak reserved memory.", kRight,
       of(&Rank::memory_reserved_bytes_max),
       [](auto& row) { return gibibytes(row.rank->memory_reserved_bytes_max); }},
      {"memory_reserved_bytes_forward", "reserved after\nforward GiB",
       "Most memory reserved at the end of a step's last forward.", kRight,
       of(&Rank::memory_reserved_bytes_forward),
       [](auto& row) { return gibibytes(row.rank->memory_reserved_bytes_forward); }},
      {"step_time_ms_median", "step time\nms", "Median time of this rank's steps.", kRight,
       of(&Rank::step_time_ms_median),
       [](auto& row) { return three_digits(row.rank->step_time_ms_median); }},
      {"steps", "steps", "Optimizer steps it did.", kRight, of(&Rank::steps),
       [](auto& row) { return row.rank->steps ? std::to_string(*row.rank->steps) : "-"; }},
      {"status", "status", "How the run stands.", kLeft, of(&Rank::status),
       [](auto& row) { return std::string(name_of(row.rank->status)); }},
  };
}

}  // namespace

std::span<const Column> columns() {
  static const std::vector<Column> all = run_columns();
  return all;
}

std::span<const Column> rank_columns() {
  static const std::vector<Column> all = columns_of_ranks();
  return all;
}

}  // namespace fsdp
