#include "runner/commands/find_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <ranges>

#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "runner/experiment/experiment.h"
#include "runner/series/run_keys.h"

namespace fsdp {
namespace {

constexpr size_t kShortestHash = 8;
constexpr size_t kMostCandidates = 10;

bool is_named_by_point(const RunRecord& run, const std::string& word) {
  return word == run.point || word == run.experiment + '/' + run.point;
}

bool is_named_by_number_or_hash(const RunRecord& run, const std::string& word) {
  return word == std::to_string(run.id) ||
         (word.size() >= kShortestHash && run.hash.starts_with(word));
}

std::vector<RunRecord> runs_named(const std::vector<RunRecord>& runs, const std::string& word) {
  const bool has_current_point = std::ranges::any_of(
      runs, [&](const RunRecord& run) { return run.current && is_named_by_point(run, word); });
  std::vector<RunRecord> found;
  std::ranges::copy_if(runs, std::back_inserter(found), [&](const RunRecord& run) {
    return is_named_by_number_or_hash(run, word) ||
           (is_named_by_point(run, word) && (run.current || !has_current_point));
  });
  return found;
}

// Finds runs by the names that `report --all` gives to runs that left the list.
std::vector<RunRecord> variants_named(const Store& store, const std::vector<RunRecord>& runs,
                                      const std::string& word) {
  std::vector<RunRecord> found;
  if (!word.ends_with(']')) return found;
  std::vector<ComparisonRow> rows = store.comparison("", Listed::kEver);
  name_variants(rows);
  for (const ComparisonRow& row : rows) {
    if (row.point != word && row.experiment + '/' + row.point != word) continue;
    found.push_back(*std::ranges::find(runs, row.run, &RunRecord::id));
  }
  return found;
}

[[noreturn]] void refuse_unknown(const std::vector<RunRecord>& runs, const std::string& word) {
  if (runs.empty()) throw ConfigError("", word, "there is no run in the results yet");
  std::vector<std::string> points;
  for (const RunRecord& run : runs) points.push_back(run.point);
  throw ConfigError("", word,
                    "names no run; allowed: a run's number, its point, EXPERIMENT/POINT, or the "
                    "first 8 digits of its hash, as `fsdp-run status --all` lists them" +
                        suggestion(word, points));
}

[[noreturn]] void refuse_ambiguous(const std::vector<RunRecord>& found, const std::string& word) {
  std::vector<std::string> labels;
  for (const RunRecord& run : std::views::take(found, kMostCandidates)) {
    labels.push_back(run_label(run));
  }
  const size_t more = found.size() - labels.size();
  throw ConfigError(
      "", word,
      fmt::format("names {}: {}{}; give one of these numbers, EXPERIMENT/POINT, or 8 digits of a "
                  "hash",
                  counted(std::ssize(found), "run"), joined(labels),
                  more > 0 ? fmt::format(" and {} more", more) : ""));
}

enum class Called { kExactly, kOrMerged };

// Finds experiments by name or by file.
std::vector<std::string> experiments_named(const Store& store, const std::string& word,
                                           Called called) {
  const auto with_name = [&](const std::string& name) {
    std::vector<std::string> names;
    for (const ExperimentRecord& record : store.experiments()) {
      const bool is_merged = called == Called::kOrMerged && !record.source.empty() &&
                             record.name == record.source + '/' + name;
      if (record.name == name || is_merged) names.push_back(record.name);
    }
    return names;
  };
  std::vector<std::string> names = with_name(word);
  if (!names.empty() || !std::filesystem::is_regular_file(word)) return names;
  const std::string name = Experiment::load(word).name();
  names = with_name(name);
  if (names.empty()) {
    throw ConfigError(word, "",
                      "the results hold no run of '" + name +
                          "'; run it first, or name another folder with --results");
  }
  return names;
}

}  // namespace

std::vector<std::string> find_experiments(const Store& store, const std::string& word) {
  return experiments_named(store, word, Called::kOrMerged);
}

std::vector<std::string> find_experiments(const Store& store,
                                          const std::vector<std::string>& words) {
  std::vector<std::string> found;
  for (const std::string& word : words) {
    const std::vector<std::string> named = find_experiments(store, word);
    if (named.empty()) {
      std::vector<std::string> names;
      for (const ExperimentRecord& record : store.experiments()) names.push_back(record.name);
      throw ConfigError("", "",
                        fmt::format("'{}' is neither a file nor an experiment in the results{}{}{}",
                                    word, names.empty() ? "" : ", which hold: ", joined(names),
                                    suggestion(word, names)));
    }
    for (const std::string& name : named) {
      if (std::ranges::find(found, name) == found.end()) found.push_back(name);
    }
  }
  return found;
}

std::set<int64_t> find_runs(const Store& store, const std::vector<std::string>& words) {
  std::set<int64_t> chosen;
  std::set<std::string> experiments;
  for (const std::string& word : words) {
    const auto names = experiments_named(store, word, Called::kExactly);
    experiments.insert(names.begin(), names.end());
    if (names.empty()) chosen.insert(find_run(store, word).id);
  }
  for (const RunRecord& run : store.runs()) {
    if (words.empty() || experiments.contains(run.experiment)) chosen.insert(run.id);
  }
  return chosen;
}

std::string run_label(const RunRecord& run) {
  return fmt::format("{} ({})", run.id,
                     visible_line(fmt::format("{}/{}, {}", run.experiment, run.point,
                                              run.hash.substr(0, kShortestHash))));
}

RunRecord find_run(const Store& store, const std::string& word) {
  const std::vector<RunRecord> runs = store.runs();
  std::vector<RunRecord> found = runs_named(runs, word);
  if (found.empty()) found = variants_named(store, runs, word);
  if (found.empty()) refuse_unknown(runs, word);
  if (found.size() > 1) refuse_ambiguous(found, word);
  return found.front();
}

}  // namespace fsdp
