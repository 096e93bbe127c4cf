#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/text/fields.h"
#include "formats/data/parquet_table.h"

// The table that every command prints, and its formats.
namespace fsdp {

// A figure as a program reads it; monostate: not measured.
using Value = std::variant<std::monostate, int64_t, double, std::string>;

// Returns the value as a number. nullopt if it is not a number.
std::optional<double> number_of(const Value& value);

// Returns the value of a struct's member. An empty text counts as not measured.
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

// Returns the value as people read it in the column called `name`; "-": not measured. The name ends
// with the unit. Bytes are shown in GiB, joules in kJ, and a total time as "2 h 03 min".
std::string text_of(const Value& value, std::string_view name);

// Returns a heading for the column called `name`: "memory\nallocated\nGiB".
std::string heading_from_name(std::string_view name);

struct Column {
  std::string name{};  // in the formats for programs; units last
  // For people, with '\n' for line breaks. Reports show a column without a heading only to
  // programs. A terminal shows such a column if it has text, as in the live view.
  std::string heading{};
  std::string documentation{};
  bool is_left = false;  // aligned to the left
  // In Parquet.
  ColumnType type = is_left ? ColumnType::kText : ColumnType::kReal;
  bool when_known = false;     // terminal: left out if every cell is "-"
  int drop_order = 0;          // terminal: left out if lines are too long, 1 first; 0: never
  size_t least = 0;            // terminal: the least width if lines are still too long; 0: not cut
  size_t first_cut_to = 0;     // terminal: the width before any column is left out; 0: not cut
  bool is_shown_first = true;  // page: shown before the reader asks for all columns

  // Returns the heading on one line.
  std::string heading_line() const;
};

struct Cell {
  Value value{};             // for programs
  std::string text{};        // for people
  std::string_view style{};  // terminal: an escape sequence; empty: none

  Cell() = default;
  Cell(Value figure, std::string for_people)
      : value(std::move(figure)), text(std::move(for_people)) {}
  Cell(std::string for_people) : text(std::move(for_people)) {}
  Cell(const char* for_people) : text(for_people) {}
};

struct Row {
  std::vector<Cell> cells{};  // one for each column
  // The rest is for the page.
  std::vector<std::string> brief_texts{};   // of cells, for narrow screens; empty: Cell::text
  std::vector<std::string> best_columns{};  // names of columns in which no row is better
  std::string reason{};                     // why the row has its status
};

// A question about the rows and its answer. Answers with the same question follow each other.
struct Answer {
  std::string question;  // "Fits"
  std::string text;      // without a full stop at its end
};

struct Warning {
  std::string name;  // "different_device"
  std::string text;  // one line: what, in which rows, and the remedy
};

// Rows that are shown together.
struct Block {
  std::string title{};                      // empty if there is only one block
  std::vector<std::string> introduction{};  // lines above the rows
  std::vector<Row> rows{};
  std::vector<std::string> legend{};  // lines below the rows: what marks and headings mean
  std::vector<Answer> answers{};      // below these lines
};

struct Table {
  std::string title{};
  std::string label{};  // latex: names the table
  std::vector<Column> columns{};
  std::vector<Block> blocks{};
  std::vector<Warning> warnings{};
  std::vector<std::string> notes{};  // lines below the table

  // Adds a row to the last block, and returns it.
  Row& add(std::vector<Cell> cells);
};

using ColumnNumbers = std::vector<size_t>;

// Returns the table with only these of its columns.
Table with_columns(Table table, const ColumnNumbers& numbers);

// Divides the columns into tables with as many columns as `fit` allows. Each table begins with the
// first column. The first table has the title; the last has the warnings and notes.
std::vector<Table> divided(const Table& table,
                           const std::function<bool(const ColumnNumbers&)>& fit);

struct Terminal {
  size_t width = 0;       // of lines; 0: unlimited
  size_t text_width = 0;  // of sentences; 0: as the lines
  bool colour = false;    // with ANSI escape sequences
};

// Spaces between two columns.
inline constexpr size_t kColumnGap = 2;

// The lines of a table in a terminal, without spaces at their ends.
struct TableLines {
  std::vector<std::string> heading;
  std::string rule;  // below the heading
  std::vector<std::string> rows;
  ColumnNumbers shown;

  std::vector<std::string> all() const;  // without the rule
};

// Lays out all rows of the table. Lines are at most as wide as the terminal, if possible. Columns
// without a heading and without any text are left out.
TableLines lay_out(const Table& table, const Terminal& terminal);

// The formats for people. Markdown and LaTeX show every column of the table. A terminal shows the
// columns that lay_out() keeps, with sentences above and below.
std::string table_text(const Table& table, const Terminal& terminal);
std::string table_markdown(const Table& table);
std::string table_latex(const Table& table);
// The formats for programs show every column and value, in full. CSV is RFC 4180. JSONL has the
// rows of JSON, one a line. Parquet is not text; ConfigError is thrown if its library is missing.
std::string table_csv(const Table& table);
std::string table_json(const Table& table);
std::string table_jsonl(const Table& table);
std::string table_parquet(const Table& table);

}  // namespace fsdp
