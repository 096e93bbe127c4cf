#include <algorithm>
#include <map>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/report/number_text.h"
#include "runner/report/published_figures.h"

namespace fsdp {
namespace {

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

}  // namespace fsdp
