#pragma once

#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runner/report/report.h"
#include "runner/report/series.h"

// The table of columns, used by every format, every option and the documentation.
namespace fsdp {

// A figure as a program reads it; monostate: not measured.
using Value = std::variant<std::monostate, int64_t, double, std::string>;

// Returns the value as a number. nullopt if it is none.
std::optional<double> number_of(const Value& value);

enum class Alignment { kLeft, kRight };

struct Difference;
struct Person;
struct Verdict;

// The parts of one row of a report.
struct ReportRow {
  // The run. If the row is a series, the medians over its repeats.
  const ComparisonRow* run = nullptr;
  const Series* series = nullptr;  // the run's series, with its baseline
  bool is_series = false;
  const RankRow* rank = nullptr;           // if the row is a rank
  const Difference* difference = nullptr;  // if the row compares two runs
  const Verdict* verdict = nullptr;        // if the row has a published figure
  const Person* person = nullptr;          // if the row is one person of a class
};

struct Column {
  std::string name;     // in csv and json; units last
  std::string heading;  // for people, with '\n' for line breaks; empty: not among the usual
  std::string documentation;
  Alignment alignment = Alignment::kRight;
  std::function<Value(const ReportRow&)> value;
  // Returns the text for people. Empty: text_of() formats the value.
  std::function<std::string(const ReportRow&)> text{};
  // True if the column is shown because of this row. Empty: always shown.
  std::function<bool(const ReportRow&)> is_shown_for{};
};

std::span<const Column> columns();
std::span<const Column> rank_columns();
// Returns a column for each key of a run, by its dotted name. Reports show the requested ones.
std::span<const Column> key_columns();

// Returns the column with that name or heading, or the key with that name. A heading may lack its
// unit. Throws ConfigError (place: `option`) with the nearest name.
const Column& find_column(std::span<const Column> columns, const std::string& name,
                          const std::string& option);

// Returns the heading as a table prints it, on one line.
std::string printed_heading(const Column& column);

// Returns the heading of `column` with its unit if `name` is one of its headings. Empty: it is
// none.
std::string heading_meant(const Column& column, const std::string& name);

// Adds a heading for people if the column has none, made from its name: GiB for bytes, and so on.
Column with_heading(Column column);

// Returns a cell for people. The value has the heading's unit; a total time is like "2 h 03 min".
std::string text_of(const Column& column, const ReportRow& row);

// Returns the memory limit that the run exceeded: "> 80.0" GiB, "-" if unknown. Empty: the row
// fits.
std::string too_little_memory(const ReportRow& row);

// Returns a page that explains each column.
std::string columns_reference();

}  // namespace fsdp
