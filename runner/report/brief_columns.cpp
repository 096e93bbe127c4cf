#include "runner/report/brief_columns.h"

#include <algorithm>

#include "runner/report/number_text.h"

namespace fsdp {
namespace {

enum class BriefWhen { kAlways, kUsual, kDiffers, kSeveralRows, kNotFinished };

struct BriefColumn {
  const char* name;
  BriefWhen when;
  int goes = 0;
  const char* heading = nullptr;                    // null: the usual one
  std::string (*text)(const ReportRow&) = nullptr;  // null: the usual one
};

std::string most_memory(const ReportRow& row) {
  const std::string limit = too_little_memory(row);
  return limit.empty() ? gibibytes(row.run->memory_allocated_bytes_max) : limit;
}

std::string short_speed(const ReportRow& row) {
  const std::optional<double>& speed = row.run->tokens_per_second;
  return speed ? short_number(*speed) : "-";
}

constexpr BriefColumn kBriefColumns[] = {
    {"experiment", BriefWhen::kDiffers},
    {"source", BriefWhen::kUsual},
    {"point", BriefWhen::kAlways},
    {"repeats", BriefWhen::kUsual, 8},
    {"strategy", BriefWhen::kDiffers, 4},
    {"ranks", BriefWhen::kDiffers, 1},
    {"batch_size_per_rank", BriefWhen::kDiffers, 5},
    {"memory_allocated_bytes_max", BriefWhen::kAlways, 0, "memory\nGiB", most_memory},
    {"mfu_percent", BriefWhen::kUsual, 3},
    {"tokens_per_second", BriefWhen::kAlways, 0, nullptr, short_speed},
    {"speed_doubt", BriefWhen::kUsual, 0, "speed\nfrom"},
    {"tokens_per_second_ratio", BriefWhen::kSeveralRows, 6, "ratio"},
    {"scaling_efficiency_percent", BriefWhen::kDiffers, 2},
    {"loss_last", BriefWhen::kAlways, 0, nullptr,
     [](const ReportRow& row) { return loss_text(row.run->loss_last, row.run->has_losses()); }},
    {"validation_loss_last", BriefWhen::kUsual, 7, "validation\nloss",
     [](const ReportRow& row) {
       return loss_text(row.run->validation_loss_last, row.run->has_validation_losses());
     }},
    {"status", BriefWhen::kNotFinished}};

// Null: the column is not brief.
const BriefColumn* brief_column(const Column& column) {
  const auto* found = std::ranges::find(kBriefColumns, column.name, &BriefColumn::name);
  return found == std::end(kBriefColumns) ? nullptr : found;
}

// Columns that a narrow table of ranks leaves out. A wide one has all of its usual columns.
constexpr std::pair<std::string_view, int> kRankColumnsGo[] = {
    {"memory_reserved_bytes_forward", 1},
    {"steps", 2},
    {"memory_allocated_bytes_forward", 3},
    {"device", 5},
    {"memory_reserved_bytes_max", 6}};

bool is_shown(const BriefColumn& brief, const Column& column, std::span<const ReportRow> rows) {
  switch (brief.when) {
    case BriefWhen::kAlways:
      return true;
    case BriefWhen::kUsual:
      return column.is_shown_for && std::ranges::any_of(rows, column.is_shown_for);
    case BriefWhen::kDiffers:
      return std::ranges::any_of(rows, [&](const ReportRow& row) {
        return text_of(column, row) != text_of(column, rows.front());
      });
    case BriefWhen::kSeveralRows:
      return rows.size() > 1;
    case BriefWhen::kNotFinished:
      return std::ranges::any_of(rows, [&](const ReportRow& row) {
        return text_of(column, row) != name_of(RunStatus::kFinished);
      });
  }
  return true;
}

void keep_most_telling(std::vector<Column>& columns) {
  while (columns.size() > kMostBriefColumns) {
    const auto first = std::ranges::min_element(columns, {}, [](const Column& column) {
      return std::pair(goes(column) == 0, goes(column));
    });
    if (goes(*first) == 0) return;
    columns.erase(first);
  }
}

}  // namespace

std::vector<Column> brief_columns(std::span<const ReportRow> rows, std::span<const Column> all) {
  std::vector<Column> columns;
  for (const BriefColumn& brief : kBriefColumns) {
    Column column = *std::ranges::find(all, brief.name, &Column::name);
    if (!is_shown(brief, column, rows)) continue;
    columns.push_back(in_brief(std::move(column)));
  }
  keep_most_telling(columns);
  return columns;
}

Column in_brief(Column column) {
  column = with_heading(std::move(column));
  const BriefColumn* brief = brief_column(column);
  if (brief != nullptr && brief->heading) column.heading = brief->heading;
  if (brief != nullptr && brief->text) column.text = brief->text;
  return column;
}

int goes(const Column& column) {
  if (const BriefColumn* brief = brief_column(column)) return brief->goes;
  const auto of_rank =
      std::ranges::find(kRankColumnsGo, column.name, &std::pair<std::string_view, int>::first);
  return of_rank == std::end(kRankColumnsGo) ? 0 : of_rank->second;
}

}  // namespace fsdp
