#include "runner/experiment/experiment_file.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "contract/spec/run_spec_keys.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "contract/text/utf8.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {
namespace {

using Section = std::map<std::string, YamlEntry>;

// The entries of `map` by name, all of them keys that the experiment's table has below `section`.
Section read_section(const YAML::Node& map, const YamlOrigin& origin, const std::string& prefix,
                     const std::string& place, std::string_view section) {
  const std::vector<std::string> allowed = experiment_key_names(section);
  Section result;
  for (const YamlEntry& entry : entries(map, origin, prefix, place)) {
    const std::string& name = entry.key.Scalar();
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      const bool is_of_a_run = section.empty() && is_key_of_a_run(name);
      refuse_unknown_key(entry, allowed,
                         is_of_a_run ? "; '" + name + "' is a run's key, and stands below 'base'"
                                     : suggestion(name, allowed));
    }
    result.emplace(name, entry);
  }
  return result;
}

Section read_section(const YamlEntry& entry, std::string_view section) {
  return read_section(entry.value, entry.origin, entry.path + '.', entry.value_place(), section);
}

std::string read_line(const YamlEntry& entry) {
  std::string text = read_text(entry);
  if (text.empty() || holds_control_characters(text) || !is_utf8(text)) {
    refuse_value(entry,
                 "is not a line of text; allowed: one line that is not empty, without control "
                 "characters");
  }
  return text;
}

// Names stand in tables and begin the names of files.
std::string read_name(const YamlEntry& entry) {
  constexpr size_t kMostCharacters = 200;
  std::string name = read_line(entry);
  if (const size_t characters = utf8_count(name); characters > kMostCharacters) {
    refuse_value(entry, "is a name of " + std::to_string(characters) +
                            " characters; allowed: at most " + std::to_string(kMostCharacters));
  }
  return name;
}

Overrides read_overrides(const YamlEntry& entry) {
  Overrides overrides;
  if (!entry.value.IsNull()) require_map(entry, "a run's keys");
  overrides.add(entry.value, entry.origin);
  return overrides;
}

ProfileRequirement read_requirement(const YamlEntry& entry) {
  ProfileRequirement requirement;
  const Section keys = read_section(entry, "profiles.NAME.requires");
  if (const auto found = keys.find("gpus"); found != keys.end()) {
    read_value(requirement.gpus, found->second, from_to(1, 1e5));
  }
  if (const auto found = keys.find("gpu_memory_gib"); found != keys.end()) {
    read_value(requirement.gpu_memory_gib, found->second, above_to(0, kMostMemoryGib));
  }
  return requirement;
}

Profile read_profile(const YamlEntry& entry) {
  Profile profile;
  profile.name = entry.key.Scalar();
  if (profile.name.empty() || profile.name == "auto") {
    throw ConfigError(entry.key_place(), entry.path,
                      "cannot be a profile's name; --profile auto chooses one");
  }
  const Section keys = read_section(entry, "profiles.NAME");
  if (const auto found = keys.find("requires"); found != keys.end()) {
    profile.requirement = read_requirement(found->second);
  }
  if (const auto found = keys.find("set"); found != keys.end()) {
    profile.set = read_overrides(found->second);
  }
  return profile;
}

// `none` keeps the experiment's sweep away from a point.
SweepBlocks read_sweep_of_point(const YamlEntry& entry) {
  if (entry.value.IsScalar() && entry.value.Scalar() == "none") return {SweepBlock{}};
  return read_sweep(entry);
}

Point read_point(const YAML::Node& node, const YamlEntry& list) {
  const std::string place = place_of(node.Mark(), list.origin);
  Point point;
  const auto keys = entries(node, list.origin, "", place);
  const auto name = std::ranges::find(keys, "name", &YamlEntry::path);
  if (name == keys.end()) {
    throw ConfigError(place, "points", "a point has no name; allowed: a map with name: TEXT");
  }
  point.name = read_name(*name);
  point.place = name->value_place();
  for (const YamlEntry& key : keys) {
    if (key.path == "sweep") {
      point.sweep = read_sweep_of_point(key);
    } else if (key.path != "name") {
      point.overrides.add(key);
    }
  }
  return point;
}

std::vector<Point> read_points(const YamlEntry& entry) {
  require_list(entry, "maps with a name each");
  if (entry.value.size() == 0) {
    refuse_value(entry, "is an empty list; allowed: at least one point, or no such key");
  }
  std::vector<Point> points;
  std::unordered_map<std::string, std::string> places;
  for (const YAML::Node& node : entry.value) {
    const Point& point = points.emplace_back(read_point(node, entry));
    const auto [namesake, is_new] = places.emplace(point.name, point.place);
    if (!is_new) {
      throw ConfigError(
          point.place, "name",
          "'" + point.name + "' is already the name of the point at " + namesake->second);
    }
  }
  return points;
}

// Points that an `exclude` names must be there.
void check_points_excluded(const ExperimentFile& file) {
  std::vector<std::string> names;
  for (const Point& point : file.points) names.push_back(point.name);
  const auto check = [&](const SweepBlocks& blocks) {
    for (const SweepBlock& block : blocks) {
      for (const Exclusion& exclusion : block.exclusions) exclusion.check_points(names);
    }
  };
  check(file.sweep);
  for (const Point& point : file.points) {
    if (point.sweep) check(*point.sweep);
  }
}

}  // namespace

ExperimentFile read_experiment_file(const std::filesystem::path& path) {
  return experiment_file_from(path, read_text_file(path));
}

ExperimentFile experiment_file_from(const std::filesystem::path& path, std::string text) {
  const YamlOrigin origin{.name = path.string(), .folder = path.parent_path()};
  ExperimentFile file;
  file.path = path;
  file.text = std::move(text);
  const YAML::Node map = parse_yaml(file.text, origin);
  const Section keys = read_section(map, origin, "", place_of(map.Mark(), origin), "");
  const auto find = [&](const char* name) {
    const auto found = keys.find(name);
    return found == keys.end() ? nullptr : &found->second;
  };
  const YamlEntry* name = find("experiment");
  if (!name) throw ConfigError(origin.name, "experiment", "is missing; allowed: experiment: NAME");
  file.name = read_name(*name);
  if (const YamlEntry* title = find("title")) file.title = read_line(*title);
  if (const YamlEntry* compare = find("compare")) {
    read_value(file.compare, *compare, any_value());
  }
  if (const YamlEntry* base = find("base")) file.base = read_overrides(*base);
  if (const YamlEntry* points = find("points")) {
    file.points = read_points(*points);
  } else {
    file.points.push_back({.name = file.name, .place = name->value_place(), .overrides = {}});
  }
  if (const YamlEntry* profiles = find("profiles")) {
    require_map(*profiles, "names to profiles");
    file.profiles_place = profiles->key_place();
    for (const YamlEntry& entry :
         entries(profiles->value, origin, "profiles.", profiles->value_place())) {
      file.profiles.push_back(read_profile(entry));
    }
  }
  if (const YamlEntry* sweep = find("sweep")) file.sweep = read_sweep(*sweep);
  check_points_excluded(file);
  return file;
}

}  // namespace fsdp
