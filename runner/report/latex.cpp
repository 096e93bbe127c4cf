#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <ranges>

#include "contract/text/utf8.h"
#include "runner/report/formats.h"

namespace fsdp {
namespace {

// Escapes text for LaTeX. Brackets are in braces: LaTeX would take a '[' at the beginning of a row
// for an option of the line before.
std::string escaped(std::string_view text) {
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

char letter_of(Alignment alignment) { return alignment == Alignment::kRight ? 'r' : 'l'; }

// Returns a heading. Several lines become a small table of their own.
std::string heading(const Column& column) {
  std::vector<std::string> lines;
  for (const auto line : column.heading | std::views::split('\n')) {
    lines.push_back(escaped({line.begin(), line.end()}));
  }
  if (lines.size() == 1) return lines.front();
  return fmt::format(R"(\begin{{tabular}}[b]{{@{{}}{}@{{}}}}{}\end{{tabular}})",
                     letter_of(column.alignment), fmt::join(lines, R"(\\)"));
}

// Returns a line with a cell for each column. `cell` returns the cell.
template <typename Cell>
std::string line_of(const std::vector<Column>& columns, const Cell& cell) {
  std::vector<std::string> cells;
  std::ranges::transform(columns, std::back_inserter(cells), cell);
  return fmt::format("{} \\\\\n", fmt::join(cells, " & "));
}

// Returns the experiment's name with only the letters that a label may have.
std::string label_of(const PreparedReport& prepared) {
  std::string label = prepared.rows.empty() ? "" : prepared.rows.front().run->experiment;
  std::ranges::replace_if(
      label, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; }, '-');
  return label.empty() ? "runs" : label;
}

// Returns a float with some of the columns, the `number`th of the report.
std::string table_of(const PreparedReport& prepared, const std::vector<Column>& columns,
                     size_t number) {
  std::string text = "\\begin{table}[htb]\n\\centering\n";
  if (!prepared.report.title.empty()) {
    text += fmt::format("\\caption{{{}{}}}\n", escaped(prepared.report.title),
                        number > 1 ? ", continued" : "");
  }
  text += fmt::format("\\label{{tab:{}{}}}\n\\begin{{tabular}}{{", label_of(prepared),
                      number > 1 ? fmt::format("-{}", number) : "");
  for (const Column& column : columns) text += letter_of(column.alignment);
  text += "}\n\\toprule\n" + line_of(columns, heading);
  for (const Block& block : prepared.blocks) {
    text += "\\midrule\n";
    if (!block.title.empty()) {
      text += fmt::format("\\multicolumn{{{}}}{{l}}{{\\itshape {}}} \\\\\n", columns.size(),
                          escaped(block.title));
    }
    for (const ReportRow& row : block.rows) {
      text += line_of(columns, [&](auto& column) { return escaped(text_of(column, row)); });
    }
  }
  return text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
}

// Divides the columns into tables of at most kMostColumns. Each begins with the first column.
std::vector<std::vector<Column>> columns_of_tables(const std::vector<Column>& columns) {
  constexpr size_t kMostColumns = 8;
  std::vector<std::vector<Column>> tables;
  for (const Column& column : columns) {
    if (tables.empty() || tables.back().size() == kMostColumns) {
      tables.emplace_back();
      if (&column != &columns.front()) tables.back().push_back(columns.front());
    }
    tables.back().push_back(column);
  }
  return tables;
}

}  // namespace

// Returns tables, and the remarks about them as paragraphs.
std::string render_latex(const PreparedReport& prepared) {
  std::string text = "% \\usepackage{booktabs}\n";
  size_t number = 0;
  for (const std::vector<Column>& columns : columns_of_tables(prepared.columns)) {
    text += table_of(prepared, columns, ++number);
  }
  for (const Block& block : prepared.blocks) {
    if (!block.set_up.empty()) text += '\n' + escaped(block.set_up) + "\\par\n";
    for (const auto& [question, answer] : block.answers) {
      text += fmt::format("\n\\textbf{{{}:}} {}\\par\n", escaped(question), escaped(answer));
    }
  }
  for (const Warning& warning : prepared.warnings) {
    text += "\n\\textbf{Warning:} " + escaped(warning.text) + ".\\par\n";
  }
  for (const std::string& line : prepared.lines_and_reasons())
    text += '\n' + escaped(line) + "\\par\n";
  return text;
}

}  // namespace fsdp
