#include <algorithm>
#include <map>
#include <span>

#include "contract/text/json.h"
#include "contract/text/utf8.h"
#include "runner/report/formats.h"
#include "runner/report/html_assets.h"

namespace fsdp {
namespace {

std::string escaped_html(std::string_view text) {
  static const std::map<char, std::string_view> kEscapes{
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}};
  std::string escaped;
  for (const char c : text) {
    const auto found = kEscapes.find(c);
    escaped += found == kEscapes.end() ? std::string_view(&c, 1) : found->second;
  }
  return escaped;
}

// JSON that nothing in a text can end the script element of, or open a comment in: '<' stands in
// strings only.
std::string safe_in_script(std::string_view json) {
  std::string safe;
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

void append_key(std::string& out, std::string_view key) {
  if (out.back() != '{') out += ',';
  append_json_string(out, key);
  out += ':';
}

template <typename T>
void append_pair(std::string& out, std::string_view key, const T& value) {
  append_key(out, key);
  append_json(out, value);
}

template <typename Items, typename AppendItem>
void append_items(std::string& out, const Items& items, AppendItem&& append_item) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ',';
    first = false;
    append_item(out, item);
  }
  out += ']';
}

template <typename Items>
void append_list(std::string& out, std::string_view key, const Items& items) {
  append_key(out, key);
  append_items(out, items, [](std::string& text, const auto& item) { append_json(text, item); });
}

void append_members(std::string& out, const Curve& curve) {
  append_pair(out, "measured", curve.measured);
  append_key(out, "x");
  append_items(out, curve.points,
               [](std::string& text, const CurvePoint& point) { append_json(text, point.x); });
  append_key(out, "y");
  append_items(out, curve.points,
               [](std::string& text, const CurvePoint& point) { append_json(text, point.y); });
}

void append_curve(std::string& out, std::string_view key, const Curve& curve) {
  append_key(out, key);
  out += '{';
  append_members(out, curve);
  out += '}';
}

void append_detail(std::string& out, const ComparisonRow& run, const RunDetail& detail) {
  out += '{';
  append_pair(out, "figures", run);
  append_pair(out, "specification", detail.specification);
  append_pair(out, "provenance", detail.provenance);
  append_list(out, "attempts", detail.attempts);
  append_list(out, "ranks", detail.ranks);
  append_list(out, "rank_facts", detail.rank_facts);
  append_list(out, "checkpoints", detail.checkpoints);
  append_curve(out, "training_loss", detail.training_loss);
  append_curve(out, "validation_loss", detail.validation_loss);
  append_key(out, "utilization");
  append_items(out, detail.utilization, [](std::string& text, const UtilizationCurve& curve) {
    text += '{';
    append_pair(text, "host", curve.host);
    append_pair(text, "device", curve.device);
    append_pair(text, "own", curve.own);
    append_members(text, curve.percent);
    text += '}';
  });
  out += "}\n";
}

std::vector<const Column*> columns_for_people(const PreparedReport& prepared) {
  std::vector<const Column*> columns;
  for (const Column& column : prepared.columns) {
    if (!column.heading.empty()) columns.push_back(&column);
  }
  return columns;
}

// [[value, text], ...]
void append_row(std::string& out, const std::vector<const Column*>& columns, const ReportRow& row) {
  append_items(out, columns, [&](std::string& cell, const Column* column) {
    cell += '[';
    append_json_value(cell, column->value(row));
    cell += ',';
    append_json_string(cell, text_of(*column, row));
    cell += ']';
  });
  out += '\n';
}

void append_table(std::string& out, const PreparedReport& prepared) {
  const std::vector<const Column*> columns = columns_for_people(prepared);
  append_key(out, "columns");
  append_items(out, columns, [](std::string& text, const Column* column) {
    text += '{';
    append_pair(text, "name", column->name);
    append_pair(text, "heading", column->heading);
    append_pair(text, "documentation", column->documentation);
    append_pair(text, "right", column->alignment == Alignment::kRight);
    text += '}';
  });
  append_key(out, "blocks");
  append_items(out, prepared.blocks, [&](std::string& text, const Block& block) {
    text += '{';
    append_pair(text, "title", block.title);
    append_key(text, "rows");
    append_items(text, std::span(prepared.rows).subspan(block.first_row, block.row_count),
                 [&](std::string& line, const ReportRow& row) { append_row(line, columns, row); });
    text += '}';
  });
}

// What html/report.js reads.
std::string page_data(const PreparedReport& prepared) {
  const Report& report = prepared.report;
  std::string data = "{";
  append_pair(data, "results", report.results);
  append_pair(data, "runs_total", report.html.run_count);
  append_table(data, prepared);
  append_key(data, "warnings");
  append_items(data, prepared.warnings, [](std::string& text, const Warning& warning) {
    append_json_string(text, warning.text);
  });
  append_list(data, "notes", prepared.lines);
  append_key(data, "runs");
  append_items(data, report.html.runs, [&](std::string& text, const RunDetail& detail) {
    append_detail(text, *std::ranges::find(report.rows, detail.run, &ComparisonRow::run), detail);
  });
  append_key(data, "experiment_texts");
  data += '{';
  for (const auto& [digest, text] : report.html.experiment_texts) append_pair(data, digest, text);
  return data + "}}";
}

}  // namespace

std::string render_html(const PreparedReport& prepared) {
  const std::string title = escaped_html(
      visible_line(prepared.report.title.empty() ? "Runs in " + prepared.report.results.string()
                                                 : prepared.report.title));
  std::string page;
  std::string_view rest = kHtmlPage;
  for (size_t begin; (begin = rest.find("{{")) != std::string_view::npos;) {
    page += rest.substr(0, begin);
    const size_t end = rest.find("}}", begin);
    const std::string_view name = rest.substr(begin + 2, end - begin - 2);
    rest.remove_prefix(end + 2);
    if (name == "title") page += title;
    if (name == "style") page += kHtmlStyle;
    if (name == "data") page += safe_in_script(page_data(prepared));
    if (name == "chart") page += kChartLibrary;
    if (name == "chart_licence") page += escaped_html(kChartLicence);
    if (name == "script") page += kHtmlScript;
  }
  return page.append(rest);
}

}  // namespace fsdp
