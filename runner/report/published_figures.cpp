#include "runner/report/published_figures.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"
#include "runner/report/comparison.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

// --- the file ---

using Section = std::map<std::string, YamlEntry>;

Section read_section(const YAML::Node& map, const YamlOrigin& origin, const std::string& place,
                     const std::vector<std::string>& allowed,
                     const std::vector<std::string>& required) {
  Section section;
  for (const YamlEntry& entry : entries(map, origin, "", place)) {
    const std::string& name = entry.key.Scalar();
    if (std::ranges::find(allowed, name) == allowed.end()) {
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
  const std::string& column = entry.key.Scalar();
  find_column(columns(), column, entry.key_place());
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
  if (std::ranges::find(reference.points, point) != reference.points.end()) {
    refuse_value(keys.at("point"), "'" + point + "' is there twice");
  }
  reference.points.push_back(point);
  require_map(keys.at("figures"), "columns with their figures");
  for (const YamlEntry& entry :
       entries(keys.at("figures").value, list.origin, "", keys.at("figures").value_place())) {
    reference.figures.push_back(read_published(entry, point, tolerance));
  }
}

// --- the comparison ---

// The result for one figure.
struct Verdict {
  const PublishedFigure* published = nullptr;
  std::string column{};
  std::optional<double> measured{};  // nullopt: no run, or not measured
  std::string word{};                // "ok", "differs", "not judged", "not measured", "no run"
};

std::string word_for(const Verdict& verdict, bool has_run) {
  if (!has_run) return "no run";
  if (!verdict.measured) return "not measured";
  const PublishedFigure& published = *verdict.published;
  if (!published.tolerance) return "not judged";
  const double allowed = *published.tolerance * std::abs(published.value);
  return std::abs(*verdict.measured - published.value) <= allowed ? "ok" : "differs";
}

Verdict verdict_of(const PublishedFigure& published, const Series* series) {
  const RunColumn& column = find_column(columns(), published.column, "--reference");
  Verdict verdict{.published = &published, .column = column.name};
  if (series != nullptr && series->finished_count > 0) {
    verdict.measured = number_of(column.value({.run = &series->median, .series = series}));
  }
  verdict.word = word_for(verdict, series != nullptr && series->median.attempt.has_value());
  return verdict;
}

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

std::vector<Column> verdict_columns(bool has_notes) {
  std::vector<Column> columns{
      Column{"point", "point", "Name of the point.", true},
      Column{"column", "column", "Name of the column.", true},
      Column{"published", "published", "The published figure."},
      Column{"measured", "measured", "The figure of the runs, the median of repeats."},
      Column{"ratio", "ratio", "measured / published."},
      Column{"tolerance", "tolerance", "Relative difference that is allowed."},
      Column{"verdict", "verdict", "ok, differs, not judged, not measured, or no run.", true},
      Column{"note", "note", "What is to be known of the published figure.", true}};
  if (!has_notes) columns.pop_back();
  return columns;
}

Row verdict_row(const Verdict& verdict, bool has_notes) {
  const PublishedFigure& published = *verdict.published;
  const auto quotient = verdict.measured && published.value != 0
                            ? std::optional(*verdict.measured / published.value)
                            : std::nullopt;
  const std::optional<double>& tolerance = published.tolerance;
  Row row{.cells = {{published.point, published.point},
                    {verdict.column, verdict.column},
                    cell_of(published.column, published.value),
                    cell_of(published.column, verdict.measured),
                    {to_value(quotient), ratio(quotient)},
                    {to_value(tolerance), tolerance ? three_digits(100 * *tolerance) + " %" : "-"},
                    {verdict.word, verdict.word},
                    {published.note, published.note}}};
  if (!has_notes) row.cells.pop_back();
  return row;
}

std::vector<std::string> lines_of(const Report& report, const Reference& reference,
                                  const std::vector<Verdict>& verdicts,
                                  const std::deque<Series>& all) {
  std::vector<std::string> lines;
  const auto add = [&](const char* what, const auto& names) {
    if (!names.empty()) lines.push_back(fmt::format("{}: {}.", what, joined_names(names)));
  };
  if (!reference.source.empty()) lines.push_back("Published: " + reference.source + ".");
  std::set<std::string> devices;
  for (const ComparisonRow& run : report.rows) {
    if (!run.device_name.empty()) devices.insert(run.device_name);
  }
  add("Measured on", devices);
  std::vector<std::string> without_run, without_reference;
  for (const std::string& point : reference.points) {
    const auto is_missing = [&](const Verdict& verdict) {
      return verdict.published->point == point && verdict.word == "no run";
    };
    if (std::ranges::any_of(verdicts, is_missing)) without_run.push_back(point);
  }
  add("Published, and without a run here", without_run);
  for (const Series& series : all) {
    const std::string& point = series.median.point;
    if (std::ranges::find(reference.points, point) == reference.points.end()) {
      without_reference.push_back(point);
    }
  }
  add("Run here, and not published", without_reference);
  const auto count = [&](std::string_view word) {
    return std::ranges::count(verdicts, word, &Verdict::word);
  };
  lines.push_back(fmt::format("{} within the tolerance, {} outside, {} not judged.",
                              counted(count("ok"), "figure"), count("differs"),
                              count("not judged")));
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  return lines;
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
  std::vector<Verdict> verdicts;
  for (const PublishedFigure& published : reference.figures) {
    const auto series = std::ranges::find_if(
        all, [&](const Series& one) { return one.median.point == published.point; });
    verdicts.push_back(verdict_of(published, series == all.end() ? nullptr : &*series));
  }
  const bool has_notes =
      is_for_programs(format) ||
      !std::ranges::all_of(reference.figures, &std::string::empty, &PublishedFigure::note);
  Block block;
  for (const Verdict& verdict : verdicts) block.rows.push_back(verdict_row(verdict, has_notes));
  const Table table{.title = report.title,
                    .columns = verdict_columns(has_notes),
                    .blocks = {std::move(block)},
                    .notes = lines_of(report, reference, verdicts, all)};
  return {.text = render(format, table, report),
          .passed = std::ranges::count(verdicts, "differs", &Verdict::word) == 0 &&
                    std::ranges::count(verdicts, "ok", &Verdict::word) > 0};
}

}  // namespace fsdp
