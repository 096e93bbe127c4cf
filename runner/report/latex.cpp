#include <map>

#include "contract/text/utf8.h"
#include "runner/report/formats.h"

namespace fsdp {
namespace {

std::string_view escape_of(char c) {
  static const std::map<char, std::string_view> kEscapes{{'&', "\\&"},
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
  const auto found = kEscapes.find(c);
  return found == kEscapes.end() ? std::string_view() : found->second;
}

// Text without meaning to LaTeX. A row must not begin with '[', nor a cell hold one that could be
// taken for an option of the line before, so brackets stand in braces.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : visible_line(text)) {
    if (c == '[' || c == ']') {
      result += std::string("{") + c + '}';
    } else if (const std::string_view escape = escape_of(c); !escape.empty()) {
      result += escape;
    } else {
      result += c;
    }
  }
  return result;
}

// A heading of several lines is a small table of its own.
std::string heading(const Column& column) {
  if (column.heading.find('\n') == std::string::npos) return escaped(column.heading);
  const char alignment = column.alignment == Alignment::kRight ? 'r' : 'l';
  std::string text = std::string("\\begin{tabular}[b]{@{}") + alignment + "@{}}";
  for (std::string_view rest = column.heading;;) {
    const size_t end = rest.find('\n');
    text += escaped(rest.substr(0, end));
    if (end == std::string_view::npos) break;
    text += "\\\\";
    rest.remove_prefix(end + 1);
  }
  return text + "\\end{tabular}";
}

void append_row(std::string& text, const std::vector<const Column*>& columns,
                const ReportRow& row) {
  for (const Column* column : columns) {
    if (column != columns.front()) text += " & ";
    text += escaped(text_of(*column, row));
  }
  text += " \\\\\n";
}

}  // namespace

// A tabular to be put into a table, and the lines below it as paragraphs.
std::string render_latex(const PreparedReport& prepared) {
  std::vector<const Column*> columns;
  for (const Column& column : prepared.columns) {
    if (!column.heading.empty()) columns.push_back(&column);
  }
  std::string text = "% " + escaped(prepared.report.title) + "\n% \\usepackage{booktabs}\n";
  text += "\\begin{tabular}{";
  for (const Column* column : columns) text += column->alignment == Alignment::kRight ? 'r' : 'l';
  text += "}\n\\toprule\n";
  for (const Column* column : columns) {
    if (column != columns.front()) text += " & ";
    text += heading(*column);
  }
  text += " \\\\\n";
  for (const Block& block : prepared.blocks) {
    text += "\\midrule\n";
    if (!block.title.empty()) {
      text += "\\multicolumn{" + std::to_string(columns.size()) + "}{l}{\\itshape " +
              escaped(block.title) + "} \\\\\n";
    }
    for (size_t row = block.first_row; row < block.first_row + block.row_count; ++row) {
      append_row(text, columns, prepared.rows[row]);
    }
  }
  text += "\\bottomrule\n\\end{tabular}\n";
  for (const Warning& warning : prepared.warnings) {
    text += "\n\\textbf{Warning:} " + escaped(warning.text) + ".\\par\n";
  }
  for (const std::string& line : prepared.lines) text += '\n' + escaped(line) + "\\par\n";
  return text;
}

}  // namespace fsdp
