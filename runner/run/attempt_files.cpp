#include "runner/run/attempt_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "base/files/whole_file.h"
#include "base/text/config_error.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/spec/yaml_value.h"
#include "runner/store/results_unavailable.h"
#include "runner/store/run_folders.h"

namespace fsdp {
namespace {

const std::string kRunner = "a runner outside of jobs";

// Creates the run's folder, but never the results folder, which may have been moved away.
void make_run_folder(const RunPaths& paths) {
  const std::filesystem::path results = results_of_run(paths.folder());
  make_folder(results, paths.folder().lexically_relative(results));
}

}  // namespace

void write_start(const RunPaths& paths, int attempt, const AttemptStart& start) {
  write_record(paths.launch_record(attempt), start, OnDisk::kLater);
}

void write_end(const RunPaths& paths, int attempt, const AttemptEnd& end) {
  write_record(paths.end_record(attempt), end, OnDisk::kLater);
}

std::optional<AttemptStart> read_start(const RunPaths& paths, int attempt, const WarnOfFile& warn) {
  return read_record<AttemptStart>(paths.launch_record(attempt), warn);
}

AttemptEnd read_end(const RunPaths& paths, int attempt, const WarnOfFile& warn) {
  AttemptEnd end = read_record<AttemptEnd>(paths.end_record(attempt), warn).value_or(AttemptEnd());
  end.was_requeued = end.starts_in_a_row.has_value();
  return end;
}

int64_t write_unix_ms(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return 0;
  return status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000;
}

int64_t last_write_unix_ms(const std::filesystem::path& folder) {
  int64_t last = 0;
  std::error_code gone;
  for (const auto& file : std::filesystem::directory_iterator(folder, gone)) {
    last = std::max(last, write_unix_ms(file.path()));
  }
  return last;
}

void read_to_end(const std::filesystem::path& results, const std::function<bool()>& read_part) {
  check_are_there(results);
  while (!read_part()) {
  }
  check_are_there(results);
}

AttemptReports read_reports(const std::filesystem::path& results, const RunRecord& run, int attempt,
                            const WarnOfFile& warn) {
  AttemptReports reports({.ranks = run.spec.strategy.ranks});
  EventTail tail(RunPaths(results / run.folder), attempt, static_cast<int>(run.spec.strategy.ranks),
                 warn);
  read_to_end(results, [&] {
    reports.add(tail.poll());
    return tail.at_end();
  });
  return reports;
}

void write_spec(const RunPaths& paths, const RunSpec& spec) {
  make_run_folder(paths);
  replace_file(paths.spec(), to_yaml(spec), OnDisk::kLater);
}

void take_run(const RunPaths& paths, const std::string& owner) {
  if (owner.empty() && !std::filesystem::exists(paths.claim())) return;  // no job knows the run
  replace_file(paths.claim(), (owner.empty() ? kRunner : owner) + '\n');
}

bool belongs_to(const std::string& owner, const RunPaths& paths) {
  if (!std::filesystem::exists(paths.claim())) {  // the job has chosen it by itself
    make_run_folder(paths);
    take_run(paths, owner);
  }
  std::string taken_by;
  std::getline(std::ifstream(paths.claim()), taken_by);
  return taken_by == owner;
}

void set_checkpoints_aside(const RunPaths& paths, int attempt) {
  const std::filesystem::path aside = paths.attempt(attempt) / "checkpoints";
  try {
    if (!std::filesystem::exists(paths.checkpoints()) || std::filesystem::is_directory(aside)) {
      return;
    }
    std::filesystem::create_directory(paths.attempt(attempt));  // it may have been deleted
    std::filesystem::rename(paths.checkpoints(), aside);
  } catch (const std::filesystem::filesystem_error& error) {
    throw ResultsUnavailable(
        fmt::format("{}: cannot be moved to {}: {}; allow it, or move them yourself",
                    paths.checkpoints().string(), aside.string(), error.code().message()));
  }
}

bool begins_anew(const RunRecord& run) { return run.begins_anew || run.spec.resume.is_never; }

void check_checkpoints_are_free(const Store& store, const std::filesystem::path& results,
                                std::span<const RunRecord> runs) {
  std::optional<NamedFolders> named;  // read when it is needed
  for (const RunRecord& run : runs) {
    const RunPaths paths(results / run.folder);
    if (!begins_anew(run) || !std::filesystem::exists(paths.checkpoints())) continue;
    if (!named) named.emplace(store);
    for (const auto& [by, key, place] : named->inputs_in(paths.checkpoints())) {
      if (!is_under_way(by.status)) continue;
      throw ConfigError(
          "--rerun", "",
          fmt::format("'{}' would begin anew and move its checkpoints, but '{}/{}' ({}) reads {} "
                      "({}); wait until that run ends, or choose other runs with --only",
                      run.point, by.experiment, by.point, name_of(by.status), place.string(), key));
    }
  }
}

int claim_attempt(const RunPaths& paths, int first) {
  make_run_folder(paths);
  int attempt = first;
  while (!std::filesystem::create_directory(paths.attempt(attempt))) ++attempt;
  return attempt;
}

}  // namespace fsdp
