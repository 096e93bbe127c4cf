// Reads published figures and shows them beside measured ones.
#include <algorithm>
#include <cmath>
#include <map>

#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"
#include "runner/report/columns.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

// --- a file of published figures ---

using Section = std::map<std::string, YamlEntry>;

Section read_section(const YAML::Node& map, const YamlOrigin& origin, const std::string& place,
                     const std::vector<std::string>& allowed,
                     const std::vector<std::string>& required) {
  Section section;
  for (const YamlEntry& entry : entries(map, origin, "", place)) {
    const std::string& name = entry.key.Scalar();
    if (!is_among(allowed, name)) {
      refuse_unknown_key(entry, allowed, suggestion(name, allowed));
    }
    section.emplace(name, entry);
  }
  for (const std::string& name : required) {
    if (!section.contains(name)) {
      throw ConfigError(place, name, "is missing; needed: " + joined(required));
    }
  }
  return section;
}

std::string text_if_given(const Section& section, const std::string& name) {
  const auto found = section.find(name);
  return found == section.end() ? "" : read_text(found->second);
}

// A relative difference, or `none`.
std::optional<double> read_tolerance(const YamlEntry& entry) {
  if (entry.value.IsScalar() && entry.value.Scalar() == "none") return std::nullopt;
  double tolerance = 0;
  read_value(tolerance, entry, at_least(0), "a number, at least 0, as 0.1 for 10 %; or none");
  return tolerance;
}

// "61.97 GiB", "212 s", "1.89".
double read_figure(const YamlEntry& entry, const std::string& column) {
  const auto value = entry.value.IsScalar() ? figure_from_text(entry.value.Scalar(), column)
                                            : std::optional<double>();
  if (!value) {
    refuse_value(entry,
                 "is no figure of " + column + "; allowed: a number" + allowed_units(column));
  }
  return *value;
}

PublishedFigure read_published(const YamlEntry& entry, const std::string& point,
                               std::optional<double> tolerance) {
  const std::string& column = find_column(columns(), entry.key.Scalar(), entry.key_place()).name;
  PublishedFigure figure{.point = point, .column = column, .tolerance = tolerance};
  if (!entry.value.IsMap()) {
    figure.value = read_figure(entry, column);
    return figure;
  }
  const Section keys = read_section(entry.value, entry.origin, entry.value_place(),
                                    {"value", "tolerance", "note"}, {"value"});
  figure.value = read_figure(keys.at("value"), column);
  if (const auto own = keys.find("tolerance"); own != keys.end()) {
    figure.tolerance = read_tolerance(own->second);
  }
  figure.note = text_if_given(keys, "note");
  return figure;
}

void read_point(Reference& reference, const YAML::Node& node, const YamlEntry& list,
                std::optional<double> tolerance) {
  const Section keys = read_section(node, list.origin, place_of(node.Mark(), list.origin),
                                    {"point", "figures"}, {"point", "figures"});
  const std::string point = read_text(keys.at("point"));
  if (is_among(reference.points, point)) {
    refuse_value(keys.at("point"), "'" + point + "' is given twice");
  }
  reference.points.push_back(point);
  require_map(keys.at("figures"), "columns with their figures");
  for (const YamlEntry& entry :
       entries(keys.at("figures").value, list.origin, "", keys.at("figures").value_place())) {
    reference.figures.push_back(read_published(entry, point, tolerance));
  }
}

// --- published and measured figures ---

// Returns a figure with its unit. It has more digits than in a table of runs, because a published
// figure is shown as published.
Cell cell_of(const std::string& column, std::optional<double> figure) {
  if (!figure) return {Value(), "-"};
  if (column.find("_time_ms") != std::string::npos) return {*figure, duration(figure)};
  if (column.find("_bytes") != std::string::npos) {
    return {*figure, decimals(*figure / kBytesPerGibibyte, 2) + " GiB"};
  }
  return {*figure, fmt::format("{:.4g}", *figure)};
}

Cell words(const std::string& text) { return {text, text}; }

const std::vector<Column>& verdict_columns() {
  static const std::vector<Column> kColumns{
      Column{"point", "point", "Name of the point.", true},
      Column{"column", "column", "Name of the column.", true},
      Column{"published", "published", "The published figure."},
      Column{"measured", "measured", "The figure of the runs, the median of repeats."},
      Column{"ratio", "ratio", "measured / published."},
      Column{"tolerance", "tolerance", "Relative difference that is allowed."},
      Column{"verdict", "verdict", "ok, differs, not judged, not measured, or no run.", true},
      Column{"note", "note", "A remark on the published figure.", true}};
  return kColumns;
}

// Returns the figure of the runs at a point. nullopt: not measured.
std::optional<double> measured_figure(const PublishedFigure& published, const Series& series) {
  if (series.finished_count == 0) return std::nullopt;
  return number_of(find_column(columns(), published.column, "--reference")
                       .value({.run = &series.median, .series = &series}));
}

const char* verdict_of(const PublishedFigure& published, std::optional<double> measured) {
  if (!measured) return "not measured";
  if (!published.tolerance) return "not judged";
  const double allowed = *published.tolerance * std::abs(published.value);
  return std::abs(*measured - published.value) <= allowed ? "ok" : "differs";
}

std::vector<Cell> cells_of(const PublishedFigure& published, std::optional<double> measured,
                           const char* verdict) {
  const auto quotient =
      measured && published.value != 0 ? std::optional(*measured / published.value) : std::nullopt;
  const std::optional<double>& tolerance = published.tolerance;
  return {words(published.point),
          words(published.column),
          cell_of(published.column, published.value),
          cell_of(published.column, measured),
          {to_value(quotient), ratio(quotient)},
          {to_value(tolerance), tolerance ? three_digits(100 * *tolerance) + " %" : "-"},
          words(verdict),
          words(published.note)};
}

// "Measured on: a GPU."; nothing without names.
void add_list(std::vector<std::string>& lines, const char* what,
              const std::vector<std::string>& names) {
  if (!names.empty()) lines.push_back(fmt::format("{}: {}.", what, joined_names(names)));
}

}  // namespace

Reference read_reference(const std::filesystem::path& file) {
  const YamlOrigin origin{.name = file.string(), .folder = file.parent_path()};
  const Section keys = read_section(parse_yaml(read_text_file(file), origin), origin, file.string(),
                                    {"title", "source", "experiment", "tolerance", "points"},
                                    {"experiment", "tolerance", "points"});
  Reference reference{.title = text_if_given(keys, "title"),
                      .source = text_if_given(keys, "source"),
                      .experiment = read_text(keys.at("experiment"))};
  const std::optional<double> tolerance = read_tolerance(keys.at("tolerance"));
  const YamlEntry& points = keys.at("points");
  require_list(points, "maps with point and figures each");
  for (const YAML::Node& node : points.value) read_point(reference, node, points, tolerance);
  return reference;
}

ReferenceReport render_reference(Format format, const Report& report, const Reference& reference) {
  const std::deque<Series> all = series_of(report.rows);
  Table table{.title = report.title, .columns = verdict_columns(), .blocks = {Block()}};
  std::map<std::string, int64_t> counts;  // of verdicts
  std::vector<std::string> without_run;
  for (const PublishedFigure& published : reference.figures) {
    const auto series = std::ranges::find_if(
        all, [&](const Series& one) { return one.median.point == published.point; });
    const bool has_run = series != all.end() && series->median.attempt;
    if (!has_run) without_run.push_back(published.point);
    const auto measured = has_run ? measured_figure(published, *series) : std::nullopt;
    const char* verdict = has_run ? verdict_of(published, measured) : "no run";
    ++counts[verdict];
    table.add(cells_of(published, measured, verdict));
  }
  const auto points = mapped(all, [](const Series& one) { return one.median.point; });
  auto devices = mapped(report.rows, &ComparisonRow::device_name);
  std::ranges::sort(devices);
  std::erase(devices, "");
  if (!reference.source.empty()) table.notes.push_back("Published: " + reference.source + ".");
  add_list(table.notes, "Measured on", distinct(devices));
  add_list(table.notes, "Published, but not run here", distinct(without_run));
  add_list(table.notes, "Run here, but not published",
           only(points, [&](auto& point) { return !is_among(reference.points, point); }));
  table.notes.push_back(fmt::format("{} within the tolerance, {} outside, {} not judged.",
                                    counted(counts["ok"], "figure"), counts["differs"],
                                    counts["not judged"]));
  table.notes.insert(table.notes.end(), report.notes.begin(), report.notes.end());
  const bool has_notes =
      !std::ranges::all_of(reference.figures, &std::string::empty, &PublishedFigure::note);
  if (!has_notes && !is_for_programs(format)) {
    table = with_columns(std::move(table), {0, 1, 2, 3, 4, 5, 6});
  }
  return {.text = render(format, table, report),
          .passed = counts["differs"] == 0 && counts["ok"] > 0};
}

}  // namespace fsdp
