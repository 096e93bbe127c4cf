// Prints a table as Markdown, LaTeX, CSV, JSON or Parquet. Texts are escaped for each format.
#include "runner/table/table.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <ranges>

#include "base/text/csv.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

constexpr size_t kHeadingWidth = 12;
constexpr double kJoulesPerKilojoule = 1'000;

// A unit in a column's name, and the unit that people see instead, at the end of the heading.
struct ShownUnit {
  std::string_view in_name;
  std::string_view shown;
};
constexpr ShownUnit kShownUnits[] = {
    {"bytes", "GiB"}, {"ms", "ms"}, {"gib", "GiB"}, {"percent", "%"}, {"joules", "kJ"}};
constexpr std::string_view kTotalTime = "_time_ms";  // such columns are shown as 2 h 03 min

// --- Markdown ---

// Escapes text for a cell or a paragraph.
std::string markdown_escaped(const std::string& text) {
  std::string result;
  for (const char c : visible_line(text)) {
    if (std::string_view("|*_`<[\\~").find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

// Returns a paragraph that does not begin a heading, list or quotation.
std::string paragraph(const std::string& text) {
  const bool is_mark =
      !text.empty() && std::string_view("#>+-=").find(text[0]) != std::string::npos;
  return (is_mark ? "\\" : "") + markdown_escaped(text);
}

std::string markdown_headings(const std::vector<Column>& columns) {
  std::string text = "|", rule = "|";
  for (const Column& column : columns) {
    text += ' ' + markdown_escaped(column.heading_line()) + " |";
    rule += column.is_left ? " --- |" : " ---: |";
  }
  return text + '\n' + rule + '\n';
}

std::string markdown_head(const Block& block) {
  std::string text;
  for (const std::string& line : block.introduction) text += paragraph(line) + "\n\n";
  return text;
}

std::string markdown_below(const Block& block) {
  std::string text;
  for (const std::string& line : block.legend) text += '\n' + paragraph(line) + '\n';
  if (!block.answers.empty()) text += '\n';
  for (const auto& [question, answer] : block.answers) {
    text += "- **" + markdown_escaped(question) + ":** " + markdown_escaped(answer) + '\n';
  }
  return text;
}

// --- LaTeX ---

// Escapes text for LaTeX. Brackets are in braces: LaTeX would take a '[' at the beginning of a row
// for an option of the line before.
std::string latex_escaped(std::string_view text) {
  static const std::map<char, std::string_view> kEscapes{{'[', "{[}"},
                                                         {']', "{]}"},
                                                         {'&', "\\&"},
                                                         {'%', "\\%"},
                                                         {'$', "\\$"},
                                                         {'#', "\\#"},
                                                         {'_', "\\_"},
                                                         {'{', "\\{"},
                                                         {'}', "\\}"},
                                                         {'~', "\\textasciitilde{}"},
                                                         {'^', "\\textasciicircum{}"},
                                                         {'\\', "\\textbackslash{}"},
                                                         {'<', "\\textless{}"},
                                                         {'>', "\\textgreater{}"},
                                                         {'|', "\\textbar{}"}};
  std::string result;
  for (const char c : visible_line(text)) {
    const auto escape = kEscapes.find(c);
    result += escape == kEscapes.end() ? std::string_view(&c, 1) : escape->second;
  }
  return result;
}

char letter_of(const Column& column) { return column.is_left ? 'l' : 'r'; }

// Returns a heading. Several lines become a small table of their own.
std::string latex_heading(const Column& column) {
  std::vector<std::string> lines;
  for (const auto line : column.heading | std::views::split('\n')) {
    lines.push_back(latex_escaped({line.begin(), line.end()}));
  }
  if (lines.size() == 1) return lines.front();
  return fmt::format(R"(\begin{{tabular}}[b]{{@{{}}{}@{{}}}}{}\end{{tabular}})", letter_of(column),
                     fmt::join(lines, R"(\\)"));
}

// Returns a line of a float. `text_of` returns the text of a cell.
std::string latex_line(const auto& cells, const auto& text_of) {
  return fmt::format("{} \\\\\n", fmt::join(mapped(cells, text_of), " & "));
}

// Returns the table's label with only the letters that a label may have.
std::string label_of(const Table& table) {
  std::string label = table.label;
  std::ranges::replace_if(
      label, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; }, '-');
  return label.empty() ? "runs" : label;
}

// Returns a float, the `number`th of a table called `title`.
std::string latex_float(const Table& part, const std::string& title, size_t number) {
  std::string text = "\\begin{table}[htb]\n\\centering\n";
  if (!title.empty()) {
    text +=
        fmt::format("\\caption{{{}{}}}\n", latex_escaped(title), number > 1 ? ", continued" : "");
  }
  text += fmt::format("\\label{{tab:{}{}}}\n\\begin{{tabular}}{{", label_of(part),
                      number > 1 ? fmt::format("-{}", number) : "");
  std::ranges::transform(part.columns, std::back_inserter(text), letter_of);
  text += "}\n\\toprule\n" + latex_line(part.columns, latex_heading);
  for (const Block& block : part.blocks) {
    text += "\\midrule\n";
    if (!block.title.empty()) {
      text += fmt::format("\\multicolumn{{{}}}{{l}}{{\\itshape {}}} \\\\\n", part.columns.size(),
                          latex_escaped(block.title));
    }
    for (const Row& row : block.rows) {
      text += latex_line(row.cells, [](const Cell& cell) { return latex_escaped(cell.text); });
    }
  }
  return text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
}

// --- JSON ---

// Returns a list with one line per item.
std::string json_lines(const std::vector<std::string>& items) {
  return fmt::format("[{}{}]", items.empty() ? "" : "\n", fmt::join(items, ",\n"));
}

// Returns each row as an object. In Parquet, a column of text has only text: a class's table of
// several figures may have numbers there.
std::vector<std::string> json_rows(const Table& table, bool is_for_parquet = false) {
  std::vector<std::string> rows;
  for (const Block& block : table.blocks) {
    for (const Row& row : block.rows) {
      JsonObject object;
      for (size_t i = 0; i < row.cells.size(); ++i) {
        const Column& column = table.columns[i];
        const Value& value = row.cells[i].value;
        const bool is_text = is_for_parquet && column.type == ColumnType::kText;
        object.add(column.name, is_text && number_of(value) ? Value(json_text(value)) : value);
      }
      rows.push_back(object.text());
    }
  }
  return rows;
}

}  // namespace

std::optional<double> number_of(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::string text_of(const Value& value, std::string_view name) {
  if (const auto* words = std::get_if<std::string>(&value)) return *words;
  const std::optional<double> number = number_of(value);
  if (!number) return "-";
  if (name.ends_with(kTotalTime)) return duration(number);
  if (name.find("_bytes") != std::string_view::npos) return gibibytes(number);
  if (name.ends_with("_joules")) return three_digits(*number / kJoulesPerKilojoule);
  const auto* integer = std::get_if<int64_t>(&value);
  return integer != nullptr ? std::to_string(*integer) : three_digits(*number);
}

std::string heading_from_name(std::string_view name) {
  std::string heading;
  std::string_view unit;
  size_t line_begin = 0;
  if (name.ends_with(kTotalTime)) name.remove_suffix(std::string_view("_ms").size());
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("_."), name.size());
    const std::string_view word = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    const auto known = std::ranges::find(kShownUnits, word, &ShownUnit::in_name);
    if (known != std::end(kShownUnits)) {
      unit = known->shown;
      continue;
    }
    if (heading.size() - line_begin + word.size() >= kHeadingWidth) {
      heading += '\n';
      line_begin = heading.size();
    } else if (!heading.empty()) {
      heading += ' ';
    }
    heading += word;
  }
  return unit.empty() ? heading : heading + '\n' + std::string(unit);
}

std::string Column::heading_line() const {
  std::string line = heading;
  std::ranges::replace(line, '\n', ' ');
  return line;
}

Row& Table::add(std::vector<Cell> cells) {
  if (blocks.empty()) blocks.emplace_back();
  blocks.back().rows.emplace_back().cells = std::move(cells);
  return blocks.back().rows.back();
}

Table with_columns(Table table, const ColumnNumbers& numbers) {
  const auto keep = [&](auto& all) {
    std::decay_t<decltype(all)> kept;
    for (const size_t number : numbers) kept.push_back(std::move(all[number]));
    all = std::move(kept);
  };
  keep(table.columns);
  for (Block& block : table.blocks) {
    for (Row& row : block.rows) keep(row.cells);
  }
  return table;
}

std::vector<Table> divided(const Table& table,
                           const std::function<bool(const ColumnNumbers&)>& fit) {
  std::vector<ColumnNumbers> parts{{0}};
  for (size_t number = 1; number < table.columns.size(); ++number) {
    parts.back().push_back(number);
    if (parts.back().size() == 2 || fit(parts.back())) continue;
    parts.back().pop_back();
    parts.push_back({0, number});
  }
  std::vector<Table> tables;
  for (const ColumnNumbers& numbers : parts) {
    Table& part = tables.emplace_back(with_columns(table, numbers));
    if (tables.size() > 1) part.title.clear();
    if (tables.size() == parts.size()) continue;
    part.warnings.clear();
    part.notes.clear();
  }
  return tables;
}

std::string table_markdown(const Table& table) {
  std::string text;
  if (!table.title.empty()) text += "### " + markdown_escaped(table.title) + "\n\n";
  for (const Block& block : table.blocks) {
    if (&block != &table.blocks.front()) text += '\n';
    if (!block.title.empty()) text += "#### " + markdown_escaped(block.title) + "\n\n";
    text += markdown_head(block) + markdown_headings(table.columns);
    for (const Row& row : block.rows) {
      text += '|';
      for (const Cell& cell : row.cells) text += ' ' + markdown_escaped(cell.text) + " |";
      text += '\n';
    }
    text += markdown_below(block);
  }
  if (table.blocks.empty()) text += markdown_headings(table.columns);
  for (const Warning& warning : table.warnings) {
    text += "\n**Warning:** " + markdown_escaped(warning.text) + ".\n";
  }
  for (const std::string& line : table.notes) text += '\n' + paragraph(line) + '\n';
  return text;
}

// Returns floats, and the sentences about them as paragraphs.
std::string table_latex(const Table& table) {
  std::string text = "% \\usepackage{booktabs}\n";
  constexpr size_t kMostColumns = 8;
  size_t number = 0;
  const auto fit = [](const ColumnNumbers& columns) { return columns.size() <= kMostColumns; };
  for (const Table& part : divided(table, fit)) {
    text += latex_float(part, table.title, ++number);
  }
  const auto add_paragraph = [&](const std::string& line) {
    text += '\n' + latex_escaped(line) + "\\par\n";
  };
  for (const Block& block : table.blocks) {
    std::ranges::for_each(block.introduction, add_paragraph);
    std::ranges::for_each(block.legend, add_paragraph);
    for (const auto& [question, answer] : block.answers) {
      text += fmt::format("\n\\textbf{{{}:}} {}\\par\n", latex_escaped(question),
                          latex_escaped(answer));
    }
  }
  for (const Warning& warning : table.warnings) {
    text += "\n\\textbf{Warning:} " + latex_escaped(warning.text) + ".\\par\n";
  }
  std::ranges::for_each(table.notes, add_paragraph);
  return text;
}

std::string table_csv(const Table& table) {
  std::string text;
  for (const Column& column : table.columns) {
    if (!text.empty()) text += ',';
    append_csv(text, column.name);
  }
  text += "\r\n";
  for (const Block& block : table.blocks) {
    for (const Row& row : block.rows) {
      for (const Cell& cell : row.cells) {
        if (&cell != &row.cells.front()) text += ',';
        append_csv(text, cell.value);
      }
      text += "\r\n";
    }
  }
  return text;
}

std::string table_json(const Table& table) {
  std::vector<std::string> answers;
  for (const Block& block : table.blocks) {
    for (const auto& [question, text] : block.answers) {
      JsonObject object;
      if (!block.title.empty()) object.add("group", block.title);
      answers.push_back(object.add("question", question).add("text", text).text());
    }
  }
  const auto warnings = mapped(table.warnings, [](const Warning& warning) {
    return JsonObject().add("name", warning.name).add("text", warning.text).text();
  });
  return fmt::format(
      "{{\"title\":{},\n\"answers\":{},\n\"rows\":{},\n\"warnings\":{},\n\"notes\":{}}}\n",
      json_text(table.title), json_lines(answers), json_lines(json_rows(table)),
      json_lines(warnings), json_lines(mapped(table.notes, json_text<std::string>)));
}

std::string table_jsonl(const Table& table) {
  std::string text;
  for (const std::string& row : json_rows(table)) text += row + '\n';
  return text;
}

std::string table_parquet(const Table& table) {
  std::string bytes;
  const auto columns = mapped(table.columns, [](const Column& column) {
    return ParquetColumn{column.name, column.type};
  });
  const auto file = new_parquet_table(columns, [&](std::string_view more) { bytes += more; });
  for (const std::string& row : json_rows(table, /*is_for_parquet=*/true)) file->add(row);
  file->close();
  return bytes;
}

}  // namespace fsdp
