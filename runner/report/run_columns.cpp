// The columns of runs and ranks. Some are members of ComparisonRow or RankRow, others are computed
// from several members. Some have a text for people that differs from their value.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/json.h"
#include "runner/report/columns.h"
#include "runner/series/speeds.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

// --- members ---

RunColumn column_of(const char* name, ColumnType type, const Meaning& meaning,
                    std::function<Value(const RunRow&)> value) {
  if (type == ColumnType::kBool) type = ColumnType::kInteger;  // as in Value
  RunColumn column{Column{name, meaning.heading, meaning.sentence, type == ColumnType::kText, type},
                   std::move(value)};
  if (meaning.better == Better::kLess) column.documentation += " Less is better.";
  if (meaning.better == Better::kMore) column.documentation += " More is better.";
  if (meaning.shown == Shown::kWhereKnown) {
    column.is_shown_for = [value = column.value](const RunRow& row) {
      return value(row) != Value();
    };
  }
  return column;
}

// Returns a column for each member of the run or rank that has a meaning, in their order.
template <Fields Struct>
std::vector<RunColumn> member_columns(const Struct* RunRow::*owner) {
  std::vector<RunColumn> columns;
  const Struct none;
  Struct::visit_fields(
      none, [&]<typename Member>([[maybe_unused]] const char* name,
                                 [[maybe_unused]] const Member& member, const auto&... meaning) {
        if constexpr (sizeof...(meaning) > 0) {
          const ptrdiff_t place = place_of_member(none, member);
          columns.push_back(column_of(name, column_type<Member>(), Meaning{meaning...},
                                      [owner, place](const RunRow& row) {
                                        return to_value(member_at<Member>(*(row.*owner), place));
                                      }));
        }
      });
  return columns;
}

// --- keys ---

template <typename Member>
Value value_of_key(const Member& value) {
  if constexpr (is_optional<Member>) {
    return value ? value_of_key(*value) : Value();
  } else if constexpr (std::same_as<Member, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::same_as<Member, AutoOrPath>) {
    return value.is_given() ? Value(value.is_auto    ? "auto"
                                    : value.is_never ? "never"
                                                     : value.path.string())
                            : Value();
  } else if constexpr (std::same_as<Member, TextList>) {
    return json_text(value);
  } else {
    return to_value(value);
  }
}

template <Fields Section>
void add_keys(std::vector<RunColumn>& columns, const RunSpec& whole, const Section& section,
              const std::string& prefix) {
  Section::visit_fields(section, [&]<typename Member>(const char* name, const Member& member,
                                                      const char* documentation, auto&&...) {
    const std::string key = prefix + name;
    if constexpr (Fields<Member>) {
      add_keys(columns, whole, member, key + '.');
    } else {
      const auto value = [place = place_of_member(whole, member)](const RunRow& row) {
        return value_of_key(member_at<Member>(row.run->spec, place));
      };
      constexpr bool kIsWord = std::same_as<Member, bool>;  // true, false
      constexpr ColumnType kType = kIsWord ? ColumnType::kText : column_type<Member>();
      columns.push_back({Column{key, "", documentation, kType == ColumnType::kText, kType}, value});
    }
  });
}

// --- columns that are computed ---

// Returns a column of a figure that not every row has. It is shown if a row has the figure.
RunColumn figure_column(const char* name, const char* heading, const char* documentation,
                        std::optional<double> (*figure)(const RunRow&),
                        std::function<std::string(const RunRow&)> text = {}) {
  return {Column{name, heading, documentation},
          [=](const RunRow& row) { return to_value(figure(row)); }, std::move(text),
          [=](const RunRow& row) { return figure(row).has_value(); }};
}

std::string repeats(const RunRow& row) {
  const size_t finished = row.series->finished_count;
  const size_t all = row.series->runs.size();
  return finished == all ? std::to_string(all) : fmt::format("{} of {}", finished, all);
}

std::string doubt(const RunRow& row) {
  return row.is_series() ? doubt_of(*row.series) : doubt_of(*row.run);
}

bool has_finished(const RunRow& row) {
  return row.is_series() ? row.series->finished_count > 0 : is_finished(row.run);
}

// Returns a row's figure divided by the baseline's. nullopt if the row has not finished.
template <typename T>
std::optional<Ratio> ratio_to_baseline(const RunRow& row,
                                       std::optional<T> AttemptSummary::*member) {
  const Series* baseline = row.series->baseline;
  if (baseline == nullptr || !has_finished(row)) return std::nullopt;
  const std::optional<double> figure = row.run->*member;
  const std::optional<double> other = baseline->median.*member;
  if (!figure || !other || !std::isfinite(*figure / *other)) return std::nullopt;
  return Ratio{.value = *figure / *other};
}

// "86 %", "86 % [80, 92]" with its interval.
std::string percent_text(const std::optional<Ratio>& ratio) {
  constexpr double kPercent = 100;
  if (!ratio) return "-";
  const std::string text = whole_percent(kPercent * ratio->value) + " %";
  if (!ratio->interval) return text;
  const auto& [low, high] = *ratio->interval;
  return fmt::format("{} [{}, {}]", text, whole_percent(kPercent * low),
                     whole_percent(kPercent * high));
}

// Returns the text of a ratio of speeds: "86 % ?" if the difference may be noise, "-" if the row is
// not compared with its baseline.
std::string speed_percent_text(const RunRow& row, const std::optional<Ratio>& ratio) {
  if (row.series == row.series->baseline) return percent_text(ratio);
  const std::optional<Speed>& speed = row.series->against_baseline;
  if (!speed || *speed > Speed::kFaster) return "-";
  return percent_text(ratio) + (*speed == Speed::kNoDifference ? " ?" : "");
}

RunColumn ratio_column(const std::string& name, const char* heading,
                       const std::string& documentation,
                       const std::function<std::optional<Ratio>(const RunRow&)>& ratio_of,
                       bool is_of_speed) {
  return {Column{name, heading, documentation},
          [=](const RunRow& row) {
            const std::optional<Ratio> known = ratio_of(row);
            return known ? Value(known->value) : Value();
          },
          [=](const RunRow& row) {
            return is_of_speed ? speed_percent_text(row, ratio_of(row))
                               : percent_text(ratio_of(row));
          }};
}

// Adds a column with the ratios of a series, and one for each end of their intervals.
void add_ratio_columns(std::vector<RunColumn>& columns, const std::string& name,
                       const char* heading, const char* figure,
                       std::optional<double> AttemptSummary::*member,
                       std::optional<Ratio> Series::*of_series) {
  columns.push_back(ratio_column(
      name, heading,
      fmt::format("{} / the baseline's median over its repeats; of rows that finished. "
                  "Absent if one of the two speeds cannot be compared.",
                  figure),
      [=](const RunRow& row) {
        if (row.is_series()) return row.series->*of_series;
        const Series* const baseline = row.series->baseline;
        const bool has_ratio = baseline != nullptr && are_comparable(*row.run, *baseline);
        return has_ratio ? ratio_to_baseline(row, member) : std::nullopt;
      },
      /*is_of_speed=*/true));
  const auto add_end = [&](const char* end, const char* of_few, double Interval::*value) {
    columns.push_back(
        {Column{fmt::format("{}_{}", name, end), "",
                fmt::format(
                    "{} end of the 95 % interval of the series' ratio. With 3 or 4 repeats, here "
                    "or in the baseline: the {} ratio between two repeats. Absent with fewer.",
                    value == &Interval::low ? "Low" : "High", of_few)},
         [=](const RunRow& row) {
           const std::optional<Ratio>& known = row.series->*of_series;
           return known && known->interval ? Value((*known->interval).*value) : Value();
         }});
  };
  add_end("low", "least", &Interval::low);
  add_end("high", "greatest", &Interval::high);
}

std::vector<RunColumn> speed_columns() {
  std::vector<RunColumn> columns{
      {Column{"speed_doubt", "speed from",
              "What the speed is based on, if that is too little to compare it: too few steps "
              "after the warm-up, or a busy host. Else empty.",
              true},
       [](auto& row) { return to_value(doubt(row)); }, doubt,
       [](auto& row) { return !doubt(row).empty(); }}};
  add_ratio_columns(columns, "tokens_per_second_ratio", "tokens/s\nratio", "tokens_per_second",
                    &AttemptSummary::tokens_per_second, &Series::tokens_per_second_ratio);
  add_ratio_columns(columns, "step_time_ratio", "", "step_time_ms_median",
                    &AttemptSummary::step_time_ms_median, &Series::step_time_ratio);
  columns.push_back(ratio_column(
      "memory_allocated_ratio", "memory\nratio",
      "memory_allocated_bytes_max / the baseline's; of rows that finished.",
      [](auto& row) { return ratio_to_baseline(row, &AttemptSummary::memory_allocated_bytes_max); },
      /*is_of_speed=*/false));
  return columns;
}

std::optional<double> efficiency(const RunRow& row) {
  if (!has_finished(row) || !doubt(row).empty()) return std::nullopt;
  return scaling_efficiency_percent(row.series->scaling, *row.run);
}

std::optional<double> training_time_ms(const RunRow& row) {
  if (!row.run->total_time_ms || !row.run->start_up_time_ms) return std::nullopt;
  return static_cast<double>(*row.run->total_time_ms) - *row.run->start_up_time_ms;
}

std::optional<double> hours(std::optional<double> time_ms) {
  return time_ms ? std::optional(hours_of(*time_ms)) : std::nullopt;
}

template <typename T, typename U>
std::optional<double> error_percent(const ComparisonRow& run, std::optional<T> predicted,
                                    std::optional<U> measured) {
  if (!is_finished(&run) || !predicted || !measured || *measured <= 0) return std::nullopt;
  return 100 * (static_cast<double>(*predicted) / static_cast<double>(*measured) - 1);
}

std::string percent(std::optional<double> value) {
  return value ? fmt::format("{:+.1f} %", *value) : "-";
}

// Returns a text column. Its value is absent if nothing was predicted.
RunColumn text_of_predictions(const char* name, const char* documentation,
                              std::string (*text)(const ComparisonRow&)) {
  return {Column{name, "", documentation, false, ColumnType::kText}, [text](auto& row) {
            return row.run->memory_allocated_bytes_predicted ? Value(text(*row.run)) : Value();
          }};
}

// --- texts for people ---

// True if rows are compared by throughput. They may differ in their steps and batches.
bool is_about_throughput(const RunRow& row) { return row.run->compare == "throughput"; }

// "fsdp", "fsdp shard_grad_op", "ddp+offload", "fsdp+offload parameters".
std::string strategy(const RunRow& row) {
  const StrategySpec& spec = row.run->spec.strategy;
  std::string text(name_of(spec.kind));
  const std::string sharding = sharding_text(spec);
  if (!sharding.empty() && sharding != name_of(Sharding::kFullShard)) text += ' ' + sharding;
  if (spec.offload != Offload::kNone) text += "+offload";
  if (spec.offload == Offload::kParameters) text += " parameters";
  return text;
}

std::string step_time(const RunRow& row) {
  const ComparisonRow& run = *row.run;
  const std::string text = three_digits(run.step_time_ms_median);
  if (!run.step_time_ms_median || !run.step_time_ms_p25 || !run.step_time_ms_p75) return text;
  const double spread = *run.step_time_ms_p75 - *run.step_time_ms_p25;
  return std::isnan(spread) ? text : text + " ±" + three_digits(spread);
}

std::string losses(const RunRow& row) {
  const ComparisonRow& run = *row.run;
  if (!run.has_losses()) return "-";
  return loss_text(run.loss_first, true) + " -> " + loss_text(run.loss_last, true) + loss_mark(row);
}

bool has_validation(const RunRow& row) {
  return row.run->validation_loss_first || row.run->token_accuracy_last;
}

// "4.1000 -> 2.5000", and the best if it is neither of them.
std::string validation_losses(const RunRow& row) {
  const ComparisonRow& run = *row.run;
  if (!has_validation(row)) return "-";
  const std::string text = loss_text(run.validation_loss_first, true) + " -> " +
                           loss_text(run.validation_loss_last, true);
  const std::optional<double>& best = run.validation_loss_best;
  const bool is_another =
      best && best != run.validation_loss_last && best != run.validation_loss_first;
  return is_another ? text + " (best " + loss_text(best, true) + ")" : text;
}

std::string token_accuracy(const RunRow& row) {
  const std::optional<double>& accuracy = row.run->token_accuracy_last;
  return accuracy ? decimals(100 * *accuracy, 1) + " %" : "-";
}

struct OwnText {
  const char* column;
  std::string (*text)(const RunRow&) = nullptr;   // null: the usual one
  bool (*is_shown_for)(const RunRow&) = nullptr;  // null: the usual rows
};

constexpr OwnText kOwnTexts[] = {
    {"strategy", strategy},
    {"batch_size_per_rank",
     [](auto& row) {
       const BatchSpec& batch = row.run->spec.batch;
       return fmt::format("{}x{}", batch.size_per_rank,
                          batch.gradient_accumulation_steps.value_or(0));
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

// Columns that are not members, and the column after which they stand.
struct ComputedColumns {
  const char* behind;
  std::vector<RunColumn> columns;
};

std::vector<ComputedColumns> computed_columns() {
  const auto scaling_value = [](auto of) {
    return [of](const RunRow& row) {
      return row.series->scaling ? to_value(of(*row.series->scaling)) : Value();
    };
  };
  return {
      {"strategy",
       {{Column{"sharding", "", "What fsdp shards, and within how many ranks; else empty.", true},
         [](auto& row) { return to_value(sharding_text(row.run->spec.strategy)); }},
        {Column{"wrap", "",
                "The modules of one unit: their parameters are gathered, and their gradients "
                "reduced, together.",
                true},
         [](auto& row) { return to_value(wrap_text(row.run->spec.strategy.wrap)); }}}},
      {"total_batch",
       {{Column{"precision", "", "Number format of training.", true},
         [](auto& row) { return to_value(precision_text(row.run->spec.precision)); }}}},
      {"repeat",
       {{Column{"repeats", "repeats", "Runs of the series; for people: how many finished, of all.",
                false, ColumnType::kInteger},
         [](auto& row) { return to_value(std::ssize(row.series->runs)); }, repeats,
         [](auto& row) { return row.series->runs.size() > 1; }}}},
      {"tokens_per_second", speed_columns()},
      {"tokens_per_second_per_rank",
       {figure_column("scaling_efficiency_percent", "scaling\n%",
                      "tokens_per_second_per_rank in percent of the scaling_base's; of rows that "
                      "finished. More is better.",
                      efficiency,
                      [](auto& row) {
                        const std::optional<double> known = efficiency(row);
                        return known ? whole_percent(*known) : "-";
                      }),
        {Column{"scaling_base", "",
                "The row with the fewest ranks that differs only in the number of ranks and in "
                "what follows from it: accumulation or the total batch, steps, and, if it has one "
                "rank, the strategy.",
                true},
         scaling_value([](const Scaling& scaling) { return scaling.base->median.point; })},
        {Column{"scaling", "",
                "weak: the total batch grows with the ranks; strong: the total batch stays the "
                "same; base: the row is the scaling_base of others.",
                true},
         scaling_value([](const Scaling& scaling) { return scaling.kind; })}}},
      {"start_up_time_ms",
       {figure_column("training_time_ms", "",
                      "total_time_ms - start_up_time_ms: from the first step on.",
                      training_time_ms),
        figure_column("gpu_hours", "GPU-\nhours",
                      "Hours of all attempts x the GPUs that they held: those of the job, else "
                      "one for each rank; only for runs on GPUs.",
                      [](auto& row) { return hours(row.run->held.gpu_time_ms); }),
        figure_column("node_hours", "",
                      "Hours of all attempts in jobs x the nodes that the jobs held.",
                      [](auto& row) { return hours(row.run->held.node_time_ms); })}},
      {"step_time_ms_predicted",
       {figure_column("memory_error_percent", "",
                      "memory_allocated_bytes_predicted against memory_allocated_bytes_max, of "
                      "runs that finished; above 0: the prediction was too high.",
                      [](auto& row) { return memory_error_percent(*row.run); }),
        figure_column("step_time_error_percent", "",
                      "step_time_ms_predicted against step_time_ms_median, of runs that finished.",
                      [](auto& row) { return step_time_error_percent(*row.run); }),
        text_of_predictions("predicted", "Predicted memory and step time, for people.",
                            [](auto& run) {
                              return fmt::format("{} GiB, {} ms",
                                                 gibibytes(run.memory_allocated_bytes_predicted),
                                                 three_digits(run.step_time_ms_predicted));
                            }),
        text_of_predictions(
            "error",
            "Errors of both predictions, for people; above 0: the prediction was too large.",
            [](auto& run) {
              return percent(memory_error_percent(run)) + ", " +
                     percent(step_time_error_percent(run));
            })}},
  };
}

// A narrow table drops these columns, those with the smallest number first.
constexpr std::pair<std::string_view, int> kDropOrder[] = {{"ranks", 1},
                                                           {"memory_reserved_bytes_forward", 1},
                                                           {"scaling_efficiency_percent", 2},
                                                           {"mfu_percent", 2},
                                                           {"memory_allocated_ratio", 3},
                                                           {"memory_allocated_bytes_forward", 3},
                                                           {"strategy", 4},
                                                           {"steps", 5},
                                                           {"batch_size_per_rank", 5},
                                                           {"device", 5},
                                                           {"tokens_per_second_ratio", 6},
                                                           {"memory_reserved_bytes_max", 6},
                                                           {"validation_loss_last", 7},
                                                           {"repeats", 8}};

auto place_of(std::vector<RunColumn>& columns, std::string_view name) {
  return std::ranges::find(columns, name, &RunColumn::name);
}

// Sets how a narrow terminal shortens the table.
void put_widths(std::vector<RunColumn>& columns) {
  for (const auto& [name, order] : kDropOrder) {
    const auto column = place_of(columns, name);
    if (column != columns.end()) column->drop_order = order;
  }
  place_of(columns, "point")->least = 12;
  place_of(columns, "point")->first_cut_to = 28;
}

std::vector<RunColumn> columns_of_runs() {
  std::vector<RunColumn> columns = member_columns(&RunRow::run);
  for (const auto& [behind, more] : computed_columns()) {
    columns.insert(std::next(place_of(columns, behind)), more.begin(), more.end());
  }
  for (const OwnText& own : kOwnTexts) {
    RunColumn& column = *place_of(columns, own.column);
    if (own.text) column.text = own.text;
    if (own.is_shown_for) column.is_shown_for = own.is_shown_for;
  }
  RunColumn& status = *place_of(columns, "status");
  status.value = [value = status.value](const RunRow& row) {
    return row.is_series() ? Value(row.series->status_text()) : value(row);
  };
  put_widths(columns);
  return columns;
}

std::vector<RunColumn> columns_of_ranks() {
  std::vector<RunColumn> columns = member_columns(&RunRow::rank);
  for (const char* name : {"offload", "sharding", "strategy"}) {  // each behind the attempt
    columns.insert(std::next(place_of(columns, "attempt")), find_column(fsdp::columns(), name, ""));
  }
  put_widths(columns);
  return columns;
}

}  // namespace

std::optional<double> memory_error_percent(const ComparisonRow& run) {
  return error_percent(run, run.memory_allocated_bytes_predicted, run.memory_allocated_bytes_max);
}

std::optional<double> step_time_error_percent(const ComparisonRow& run) {
  return error_percent(run, run.step_time_ms_predicted, run.step_time_ms_median);
}

std::span<const RunColumn> columns() {
  static const std::vector<RunColumn> all = columns_of_runs();
  return all;
}

std::span<const RunColumn> rank_columns() {
  static const std::vector<RunColumn> all = columns_of_ranks();
  return all;
}

std::span<const RunColumn> key_columns() {
  static const std::vector<RunColumn> all = [] {
    std::vector<RunColumn> columns;
    const RunSpec spec;
    add_keys(columns, spec, spec, "");
    return columns;
  }();
  return all;
}

}  // namespace fsdp
