#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contract/record/run_paths.h"
#include "runner/store/attempts.h"
#include "runner/store/record_files.h"
#include "runner/store/records.h"

// The files that say which runs a results folder has and how each ended. They are the truth:
// results.sqlite is an index of them (sync.cpp). launch.json, end.json and the ranks' events are
// the other files of a run.
//
//   lists/<list>.json         RunList: an experiment and its runs, in order
//   texts/<digest>.yaml       an experiment's file as it was when attempts began
//   runs/<list>/<run>/        run.json: the run; status.json: StatusNote
//     attempt-<N>/            verdict.json: Verdict
//   slurm/<job>/job.json      JobRecord
//   merged/<name>/            the same files of other results, and source.json: MergedFrom
//
// Functions that write create missing folders below the results folder, but never the results
// folder: it may have been moved away. They throw ResultsUnavailable or std::system_error.
namespace fsdp {

// An experiment with the folders of the runs in its list as last planned.
struct RunList : ExperimentRecord {
  std::vector<std::filesystem::path> runs{};  // relative to the results

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    ExperimentRecord::visit_fields(self, visit);
    visit("runs", self.runs);
  }
};

// A status that does not follow from the run's attempts, such as cancelled. It counts while the run
// has as many attempts that began and ended.
struct StatusNote {
  RunStatus status = RunStatus::kUnknown;
  std::string reason{};
  int64_t attempts_begun = 0;
  int64_t attempts_ended = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("status", self.status);
    visit("reason", self.reason);
    visit("attempts_begun", self.attempts_begun);
    visit("attempts_ended", self.attempts_ended);
  }
};

// The origin of merged results.
struct MergedFrom {
  std::filesystem::path folder;  // absolute

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("folder", self.folder);
  }
};

// A folder with the files of runs: the results folder, or one that was merged into it.
struct ResultsPart {
  std::filesystem::path folder{};  // relative to the results; empty: the results folder itself
  std::string source{};            // owner of merged results; empty: planned in this folder
};

// Returns the name that an experiment, or a source, of the source's results has here.
std::string name_here(std::string_view source, std::string_view name);
// Returns the part and those that were merged into it, also by way of others. Follows no links.
std::vector<ResultsPart> parts_of(const std::filesystem::path& results, ResultsPart part = {});
// Returns the names in the folder, sorted, except hidden ones: files that are being written, and
// folders that are being removed. Empty if the folder is missing or cannot be read.
std::vector<std::filesystem::path> visible_names(const std::filesystem::path& folder);
// Returns the folders two levels below <results>/runs, relative to the results.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& results);

// Throws ResultsUnavailable if the results folder does not exist.
void check_are_there(const std::filesystem::path& results);
// Creates the folder <results>/`folder` with its parents below the results folder.
void make_folder(const std::filesystem::path& results, const std::filesystem::path& folder);

void write_list(const std::filesystem::path& results, const RunList& list);
// Adds a run's folder to a list, unless the list has it.
void add_to_list(const std::filesystem::path& results, std::string_view name,
                 const std::filesystem::path& folder, const WarnOfFile& warn);
// Writes the lists of results that have none. They appear together.
void write_first_lists(const std::filesystem::path& results, std::span<const RunList> lists);
void write_text(const std::filesystem::path& results, const std::string& digest,
                const std::string& text);
// Writes run.json in run.folder, unless it says the same already.
void write_run(const std::filesystem::path& results, const RunRecord& run);
void write_status(const RunPaths& run, const StatusNote& note);
void write_verdict(const RunPaths& run, int attempt, const Verdict& verdict);
void write_job(const std::filesystem::path& results, const JobRecord& job);

// Remove a file, if it is there.
void remove_status(const RunPaths& run);
void remove_verdict(const RunPaths& run, int attempt);
void remove_job(const std::filesystem::path& results, const std::filesystem::path& folder);

// Return the place of a file. `folder` is relative to the results.
std::filesystem::path lists_folder(const std::filesystem::path& results);
// Throws std::runtime_error if the digest could lead out of the folder.
std::filesystem::path text_file(const std::filesystem::path& results, const std::string& digest);
std::filesystem::path list_file(const std::filesystem::path& results, std::string_view name);
std::filesystem::path source_file(const std::filesystem::path& results);
std::filesystem::path run_file(const std::filesystem::path& results,
                               const std::filesystem::path& folder);
std::filesystem::path job_file(const std::filesystem::path& results,
                               const std::filesystem::path& folder);
std::filesystem::path verdict_file(const RunPaths& run, int attempt);

// Returns the file of the last answer of `diverge` about two runs, in its own results folder. The
// order of the runs does not matter.
std::filesystem::path divergence_file(const std::filesystem::path& results, int64_t run,
                                      int64_t other);

// Return nullopt if the file is missing or is not what fsdp-run writes there. `warn` is told of the
// latter.
std::optional<RunList> read_list(const std::filesystem::path& file, const WarnOfFile& warn);
// `folder` is relative to the results. The record has its specification, and the status planned.
std::optional<RunRecord> read_run(const std::filesystem::path& results,
                                  const std::filesystem::path& folder, const WarnOfFile& warn);
std::optional<StatusNote> read_status(const RunPaths& run, const WarnOfFile& warn);
std::optional<Verdict> read_verdict(const RunPaths& run, int attempt, const WarnOfFile& warn);
// `folder` is relative to the results.
std::optional<JobRecord> read_job(const std::filesystem::path& results,
                                  const std::filesystem::path& folder, const WarnOfFile& warn);

}  // namespace fsdp
