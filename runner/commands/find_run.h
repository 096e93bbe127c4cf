#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runner/store/store.h"

// Finds what users name in the results: runs, experiments, and the jobs of runs.
namespace fsdp {

// The help for a word that find_run takes.
inline constexpr const char* kRunWordHelp =
    "A run: its number, its point, EXPERIMENT/POINT, or 8 digits of its hash";

// Returns the run that `word` names: by number, point, EXPERIMENT/POINT, or at least the first 8
// digits of its hash. A point means a run in its experiment's current list, if there is one. Throws
// ConfigError with the candidates if several runs match, or with the nearest name if none does.
RunRecord find_run(const Store& store, const std::string& word);

// Returns the experiments in the results that the words name, by name or by file, each once. A name
// also means experiments merged from other folders ("alice/lab" for "lab"). Throws ConfigError if a
// word is the file of an experiment that has no run, or with the nearest name if it names none.
std::vector<std::string> find_experiments(const Store& store,
                                          const std::vector<std::string>& words);

// The purpose of finding runs. kChange (remove or end runs): "lab" does not include "alice/lab".
// kRead: "lab" includes "alice/lab", and a run that left its experiment's list is refused.
enum class Purpose { kChange, kRead };

// Returns the numbers of the runs that the words mean: experiments or runs; no words mean all.
// Throws ConfigError as find_run.
std::set<int64_t> find_runs(const Store& store, const std::vector<std::string>& words,
                            Purpose purpose = Purpose::kChange);

// Returns the run's row. Throws std::runtime_error if the run is gone.
ComparisonRow row_of(const Store& store, const RunRecord& run);

// Returns "12 (lab/4xFSDP, 0123abcd)" for messages: the number, and two other ways to name the run.
std::string run_label(const RunRecord& run);

// --- jobs of Slurm ---

// Brings open jobs up to date before a command reports on runs, unless that was done within
// `pause`. With a pause, asks Slurm less often than it reads files. If Slurm cannot be asked, a
// line on stderr says so; the report then relies on what the jobs wrote.
void refresh_open_jobs(Store& store, const std::filesystem::path& results,
                       std::chrono::seconds pause = std::chrono::seconds(0));

// Returns the newest job submitted for the run, with the run's task only.
std::optional<JobRecord> newest_job(const Store& store, const RunRecord& run);

bool has_open_job(const Store& store, const RunRecord& run);

// "job 12_0, PENDING (Resources)", "job 12_0 on n[1-2]", "job 12_0, which is over"
std::string job_text(const JobRecord& job);

// Returns the path of the job's own output file. The file tells why a job began no attempt.
std::string job_output(const JobRecord& job, const std::filesystem::path& results);

}  // namespace fsdp
