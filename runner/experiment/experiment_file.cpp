// Reads an experiment's file. Each value is checked by itself here.
#include "runner/experiment/experiment_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <unordered_map>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {
namespace {

std::string read_line(const YamlEntry& entry) {
  std::string text = read_text(entry);
  if (text.empty() || holds_control_characters(text) || !is_utf8(text)) {
    refuse_value(entry,
                 "is not a line of text; allowed: one line that is not empty, without control "
                 "characters");
  }
  return text;
}

// Names appear in tables and begin file names.
std::string read_name(const YamlEntry& entry) {
  constexpr size_t kMostCharacters = 200;
  std::string name = read_line(entry);
  if (const size_t characters = utf8_count(name); characters > kMostCharacters) {
    refuse_value(entry, fmt::format("is a name of {} characters; allowed: at most {}", characters,
                                    kMostCharacters));
  }
  return name;
}

// The name of a list (runner/store/list_name.h) must begin with exactly this name.
std::string read_experiment_name(const YamlEntry& entry) {
  std::string name = read_name(entry);
  if (name.find(" [") != std::string::npos) {
    refuse_value(entry,
                 "contains \" [\", which begins the overrides in a list's name; allowed: a name "
                 "without \" [\"; write 'lab (a)' in place of 'lab [a]'");
  }
  return name;
}

// Returns no overrides if there is no entry.
Overrides read_overrides(const YamlEntry* entry) {
  Overrides overrides;
  if (entry == nullptr) return overrides;
  if (!entry->value.IsNull()) require_map(*entry, "a run's keys");
  overrides.add(entry->value, entry->origin);
  return overrides;
}

Profile read_profile(const YamlEntry& entry) {
  Profile profile{.name = entry.key.Scalar()};
  if (profile.name.empty() || profile.name == "auto") {
    throw ConfigError(entry.key_place(), entry.path,
                      "cannot be a profile's name; --profile auto chooses one");
  }
  const Section keys = read_section(entry, "profiles.NAME");
  if (const YamlEntry* needs = keys.find("requires")) {
    const Section requirement = read_section(*needs, "profiles.NAME.requires");
    requirement.read("gpus", profile.gpus, from_to(1, 1e5));
    requirement.read("gpu_memory_gib", profile.gpu_memory_gib, above_to(0, kMostMemoryGib));
  }
  profile.set = read_overrides(keys.find("set"));
  return profile;
}

// With `none`, a point is run without the experiment's sweep.
SweepBlocks read_sweep_of_point(const YamlEntry& entry) {
  if (entry.value.IsScalar() && entry.value.Scalar() == "none") return {SweepBlock{}};
  return read_sweep(entry);
}

Point read_point(const YamlEntry& item) {
  const std::string place = place_of(item.value.Mark(), item.origin);
  const auto keys = entries(item.value, item.origin, "", place);
  const auto name = std::ranges::find(keys, "name", &YamlEntry::path);
  if (name == keys.end()) {
    throw ConfigError(place, "points", "a point has no name; allowed: a map with name: TEXT");
  }
  Point point{.name = read_name(*name), .place = name->value_place(), .overrides = {}};
  Mistakes mistakes;
  for (const YamlEntry& key : keys) {
    mistakes.collect([&] {
      if (key.path == "sweep") {
        point.sweep = read_sweep_of_point(key);
      } else if (key.path != "name") {
        point.overrides.add(key);
      }
    });
  }
  mistakes.throw_if_any();
  return point;
}

std::vector<Point> read_points(const YamlEntry& entry) {
  require_list(entry, "maps with a name each");
  std::vector<Point> points;
  std::unordered_map<std::string, std::string> places;
  Mistakes mistakes;
  for (const YamlEntry& item : items_of(entry, "point; or leave the key out")) {
    mistakes.collect([&] {
      const Point& point = points.emplace_back(read_point(item));
      const auto [namesake, is_new] = places.emplace(point.name, point.place);
      if (is_new) return;
      throw ConfigError(
          point.place, "name",
          fmt::format("'{}' is already the name of the point at {}", point.name, namesake->second));
    });
  }
  mistakes.throw_if_any();
  return points;
}

ExperimentFile read_experiment(const std::filesystem::path& path, std::string text) {
  const YamlOrigin origin{.name = path.string(), .folder = path.parent_path()};
  ExperimentFile file{.path = path, .text = std::move(text)};
  Mistakes mistakes;
  const Section keys = read_section({{}, parse_yaml(file.text, origin), "", origin}, "", &mistakes);
  // Calls `read` with the entry of the key, if it is there.
  const auto read_key = [&](const char* key, const auto& read) {
    const YamlEntry* entry = keys.find(key);
    if (entry != nullptr) mistakes.collect([&] { read(*entry); });
    return entry;
  };
  const YamlEntry* name =
      read_key("experiment", [&](auto& entry) { file.name = read_experiment_name(entry); });
  if (!name) {
    mistakes.collect([&] {
      throw ConfigError(origin.name, "experiment", "is missing; allowed: experiment: NAME");
    });
  }
  read_key("title", [&](auto& entry) { file.title = read_line(entry); });
  mistakes.collect([&] { keys.read("compare", file.compare, any_value()); });
  read_key("base", [&](auto& entry) { file.base = read_overrides(&entry); });
  const YamlEntry* points =
      read_key("points", [&](auto& entry) { file.points = read_points(entry); });
  if (!points && name) {
    file.points.push_back({.name = file.name, .place = name->value_place(), .overrides = {}});
  }
  read_key("profiles", [&](const YamlEntry& profiles) {
    require_map(profiles, "names to profiles");
    file.profiles_place = profiles.key_place();
    for (const YamlEntry& entry :
         entries(profiles.value, origin, "profiles.", profiles.value_place())) {
      mistakes.collect([&] { file.profiles.push_back(read_profile(entry)); });
    }
  });
  read_key("sweep", [&](auto& entry) { file.sweep = read_sweep(entry); });
  mistakes.throw_if_any();
  std::vector<std::string> names;
  for (const Point& point : file.points) names.push_back(point.name);
  for (const Exclusion* exclusion : file.exclusions()) exclusion->check_points(names);
  return file;
}

// Returns the experiments in experiments/, in the folder of `file` and in its experiments/, by
// their names without extension.
std::map<std::string, std::string> experiments_around(const std::filesystem::path& file) {
  std::map<std::string, std::string> found;
  for (const std::filesystem::path& folder :
       {file.parent_path(), file.parent_path() / "experiments",
        std::filesystem::path("experiments")}) {
    std::error_code unknown;
    for (const auto& entry :
         std::filesystem::directory_iterator(folder.empty() ? "." : folder, unknown)) {
      const std::filesystem::path name = entry.path().filename();
      if (name.extension() == ".yaml") found.emplace(name.stem(), folder / name);
    }
  }
  return found;
}

// Throws ConfigError with a hint: a file of this name in another folder or with the extension, or
// else one with a similar name.
[[noreturn]] void refuse_missing(const std::filesystem::path& file) {
  const auto around = experiments_around(file);
  std::string other = experiment_meant(file);
  const std::string extension = file.extension();
  if (other.empty() && (extension.empty() || extension == ".yaml" || extension == ".yml")) {
    const auto stems = around | std::views::keys;
    const auto similar =
        around.find(nearest_name(file.stem().string(), {stems.begin(), stems.end()}));
    if (similar != around.end()) other = similar->second;
  }
  std::string hint;
  if (!other.empty()) {
    hint = fmt::format("; did you mean '{}'?", other);
  } else if (!around.empty()) {
    hint =
        fmt::format("; experiments that exist: {}", fmt::join(around | std::views::values, ", "));
  }
  throw ConfigError(file.string(), "", "there is no such file" + hint);
}

[[noreturn]] void refuse_folder(const std::filesystem::path& folder) {
  const auto inside = experiments_around(folder / "any");
  throw ConfigError(
      folder.string(), "",
      "is a folder; give an experiment's file" +
          (inside.empty() ? ""
                          : fmt::format(": {}", fmt::join(inside | std::views::values, ", "))));
}

}  // namespace

std::string experiment_meant(const std::filesystem::path& file) {
  const auto around = experiments_around(file);
  const auto found = around.find(file.extension() == ".yaml" ? file.stem() : file.filename());
  return found == around.end() ? "" : found->second;
}

std::vector<const Exclusion*> ExperimentFile::exclusions() const {
  std::vector<const Exclusion*> all;
  const auto add = [&](const SweepBlocks& blocks) {
    for (const SweepBlock& block : blocks) {
      for (const Exclusion& exclusion : block.exclusions) all.push_back(&exclusion);
    }
  };
  add(sweep);
  for (const Point& point : points) {
    if (point.sweep) add(*point.sweep);
  }
  return all;
}

Experiment Experiment::load(const std::filesystem::path& file) {
  if (file == "-") return from_text(file, read_text_file("/dev/stdin"));
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) refuse_missing(file);
  if (std::filesystem::is_directory(file, unknown)) refuse_folder(file);
  return from_text(file, read_text_file(file));
}

Experiment Experiment::from_text(const std::filesystem::path& file, std::string text) {
  return Experiment(std::make_shared<ExperimentFile>(read_experiment(file, std::move(text))));
}

const std::string& Experiment::name() const { return file_->name; }
const std::string& Experiment::title() const { return file_->title; }
Comparison Experiment::compare() const { return file_->compare; }
const std::filesystem::path& Experiment::file() const { return file_->path; }
const std::string& Experiment::text() const { return file_->text; }

}  // namespace fsdp
