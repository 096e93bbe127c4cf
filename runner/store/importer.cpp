// Writes the files of runs that earlier versions recorded in results.sqlite only. The folder of
// lists appears last, so an import that was killed is done again.
#include <unistd.h>

#include <cerrno>
#include <set>
#include <system_error>

#include "base/files/scratch_folder.h"
#include "base/text/config_error.h"
#include "contract/record/run_paths.h"
#include "runner/store/copy_runs.h"
#include "runner/store/run_files.h"
#include "runner/store/run_folders.h"
#include "runner/store/store.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Returns the folder of a source's merged results, relative to the results.
path part_of_source(const std::string& source) {
  path folder;
  for (const path& name : path(source)) folder = folder / "merged" / name;
  return folder;
}

// Returns the end of the path, runs/<list>/<run>.
path end_of(const path& run_folder) {
  return run_folder.lexically_relative(run_folder.parent_path().parent_path().parent_path());
}

// Returns where the results have a run's files. Empty if the index names an impossible folder.
// Earlier versions left the files of merged runs with their source.
path place_of_files(const RunRecord& run) {
  const path part = part_of_source(run.source);
  const path folder = run.source.empty() ? run.folder : part / end_of(run.folder);
  const bool is_sound = folder.is_relative() && folder.lexically_normal() == folder &&
                        is_run_folder(folder.lexically_relative(part));
  return is_sound ? folder : path();
}

// Returns the experiment's name in the results of its source.
std::string name_there(const std::string& source, const std::string& experiment) {
  return experiment.starts_with(source + '/') ? experiment.substr(source.size() + 1) : experiment;
}

// Notes which folder a merged run came from, if that is still there.
void write_origin(const path& part, const path& run_folder) {
  std::error_code gone;
  const path origin =
      std::filesystem::canonical(run_folder.parent_path().parent_path().parent_path(), gone);
  if (gone) return;
  std::filesystem::create_directories(part);
  write_record(source_file(part), MergedFrom{origin});
}

// Copies the other files of a merged run, if its source is still there.
void copy_events(const path& from, const path& to, const WarnOfFile& warn) try {
  copy_run(from, to);
} catch (const ConfigError& error) {
  warn(error.what());
}

}  // namespace

void Store::write_files() {
  std::set<path> parts{path()};
  for (RunRecord& run : runs()) {
    const path folder = place_of_files(run);
    if (folder.empty()) continue;
    if (!run.source.empty()) {
      const path part = part_of_source(run.source);
      if (parts.insert(part).second) write_origin(results_ / part, results_ / run.folder);
      copy_events(results_ / run.folder, results_ / folder, warn_);
    }
    run.folder = folder;
    write_files_of(run);
    sql("update runs set folder = ? where id = ?").run(folder, run.id);
  }
  for (const auto& [digest, text] :
       sql("select digest, text from experiment_texts").rows<std::string, std::string>()) {
    for (const path& part : parts) write_text(results_ / part, digest, text);
  }
  for (const JobRecord& job : jobs("? = 1", 1)) write_job(results_, job);
  std::vector<RunList> lists;
  for (const ExperimentRecord& experiment : experiments()) {
    RunList list = list_of(experiment.name);
    for (path& folder : list.runs) folder = end_of(folder);
    list.name = name_there(experiment.source, experiment.name);
    if (experiment.source.empty()) {
      lists.push_back(std::move(list));
    } else if (parts.contains(part_of_source(experiment.source))) {
      write_list(results_ / part_of_source(experiment.source), list);
    }
  }
  write_first_lists(results_, lists);
}

// Writes the run's files in its folder.
void Store::write_files_of(RunRecord run) {
  const std::vector<AttemptRecord> attempts = this->attempts(run.id);
  const RunPaths paths(results_ / run.folder);
  run.spec = spec(run.id);
  run.experiment = name_there(run.source, run.experiment);
  write_run(results_, run);
  int64_t ended = 0;
  for (const AttemptRecord& attempt : attempts) {
    make_folder(results_, run.folder / paths.attempt(attempt.attempt).filename());
    if (!std::filesystem::exists(paths.launch_record(attempt.attempt))) {
      write_record(paths.launch_record(attempt.attempt), static_cast<const AttemptStart&>(attempt));
    }
    if (attempt.status == RunStatus::kRunning) continue;
    ++ended;
    write_verdict(paths, attempt.attempt,
                  {.status = attempt.status,
                   .reason = attempt.reason,
                   .reason_rank = static_cast<int>(attempt.reason_rank.value_or(-1)),
                   .ended_unix_ms = attempt.ended_unix_ms.value_or(attempt.started_unix_ms)});
  }
  if (standing(attempts) == std::pair(run.status, run.reason)) return;
  write_status(paths, {run.status, run.reason, std::ssize(attempts), ended});
}

void copy_old_results(const path& results, const path& to) {
  const path file = results / "results.sqlite";
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    throw std::runtime_error("there is no results.sqlite in " + results.string() +
                             " or its folder results");
  }
  if (access(file.c_str(), R_OK) != 0) {
    throw std::runtime_error("cannot be read: " + std::generic_category().message(errno));
  }
  require_mergeable(file);
  const ScratchFolder scratch;
  try {
    const path copy = scratch.path() / file.filename();
    Database::copy_of(file, copy);
    Store store(scratch.path());
    // The database of somebody else must not name folders to copy from.
    Database(copy).execute(
        "update runs set folder = '/dev/null/' || folder "
        "where experiment in (select name from experiments where source <> '')");
    store.sync();
  } catch (const std::exception& problem) {
    std::string text = problem.what();
    const size_t place = text.find(scratch.path().string());
    if (place != text.npos) text.replace(place, scratch.path().native().size(), results.string());
    throw std::runtime_error(text);
  }
  copy_results(scratch.path(), to);
  for (const path& folder : run_folders(to)) copy_run(results / folder, to / folder);
}

}  // namespace fsdp
