#pragma once

#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runner/report/report.h"
#include "runner/report/series.h"

// The one table of columns that every format, every option and the documentation draw on.
namespace fsdp {

// A figure as a program reads it; monostate: not measured.
using Value = std::variant<std::monostate, int64_t, double, std::string>;

// The number, of whatever type.
std::optional<double> number_of(const Value& value);

enum class Alignment { kLeft, kRight };

struct Difference;
struct Person;
struct Verdict;

// What one row of a report is made of.
struct ReportRow {
  // The run; where a row is a series, the medians over its repeats.
  const ComparisonRow* run = nullptr;
  const Series* series = nullptr;  // that the run belongs to, with its baseline
  bool is_series = false;
  const RankRow* rank = nullptr;           // of a row that is a rank
  const Difference* difference = nullptr;  // of a row that compares two runs
  const Verdict* verdict = nullptr;        // of a row beside a published figure
  const Person* person = nullptr;          // of a row that is all that one person of a class has
};

struct Column {
  std::string name;     // in csv and json; units last
  std::string heading;  // for people, '\n' where the table breaks it; empty: not among the usual
  std::string documentation;
  Alignment alignment = Alignment::kRight;
  std::function<Value(const ReportRow&)> value;
  // For people; empty: the value's, as text_of() says.
  std::function<std::string(const ReportRow&)> text{};
  // The column is among the usual ones where it holds for one of the rows; empty: always.
  std::function<bool(const ReportRow&)> is_shown_for{};
};

std::span<const Column> columns();
std::span<const Column> rank_columns();
// Every key of a run by its dotted name, of which a report shows what it is asked for.
std::span<const Column> key_columns();

// The column of that name or heading among `columns`, or the key of that name; throws ConfigError
// (place: `option`) with the nearest name. A heading may stand without its unit.
const Column& find_column(std::span<const Column> columns, const std::string& name,
                          const std::string& option);

// As a table prints it, on one line.
std::string printed_heading(const Column& column);

// The heading of `column`, in one of the tables, that `name` is, with its unit; empty: it is none.
std::string heading_meant(const Column& column, const std::string& name);

// Gives a column that has no heading one for people, made from its name: GiB for bytes, and so on.
Column with_heading(Column column);

// A cell for people: the value in the unit that the heading has, a total time as "2 h 03 min".
std::string text_of(const Column& column, const ReportRow& row);

// Of a row that did not fit what did not suffice, in GiB, "> 80.0", or "-"; empty: it fits.
std::string too_little_memory(const ReportRow& row);

// A page that says what each column is.
std::string columns_reference();

}  // namespace fsdp
