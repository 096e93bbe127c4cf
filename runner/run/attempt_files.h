#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "runner/run/judgement.h"
#include "runner/run/launcher.h"
#include "runner/store/attempt_reports.h"
#include "runner/store/event_files.h"
#include "runner/store/record_files.h"
#include "runner/store/run_files.h"
#include "runner/store/store.h"

// The files of a run's folder that the runner writes. Every file appears complete, because it is
// renamed into place.
namespace fsdp {

// Write launch.json and end.json of an attempt. The process that starts the ranks writes
// launch.json before their start, and end.json after their end. If it is killed, end.json is
// missing. The attempt's folder must exist. Throw std::system_error if the file cannot be written.
void write_start(const RunPaths& paths, int attempt, const AttemptStart& start);
void write_end(const RunPaths& paths, int attempt, const AttemptEnd& end);

// Return nullopt, or an unseen end, if the file is missing or has no valid record. `warn` gets a
// line about an invalid record.
std::optional<AttemptStart> read_start(const RunPaths& paths, int attempt, const WarnOfFile& warn);
AttemptEnd read_end(const RunPaths& paths, int attempt, const WarnOfFile& warn);

// Return the time of the last write to the file, or to a file of the folder, by the file server's
// clock; 0: unknown.
int64_t write_unix_ms(const std::filesystem::path& file);
int64_t last_write_unix_ms(const std::filesystem::path& folder);

// Reads events files to their end. `read_part` reads a part of them, and returns true at the end.
// Throws ResultsUnavailable if the results folder is missing: its files would look empty.
void read_to_end(const std::filesystem::path& results, const std::function<bool()>& read_part);

// Reads the reports of all ranks of an attempt. The run has its specification.
AttemptReports read_reports(const std::filesystem::path& results, const RunRecord& run, int attempt,
                            const WarnOfFile& warn);

// Writes run.yaml. Readers see the old or the new text, never a part. Throws ResultsUnavailable.
void write_spec(const RunPaths& paths, const RunSpec& spec);

// A run belongs to the last caller that took it: a submission to Slurm, or a runner. A job that
// Slurm starts late, or again, leaves alone what another caller has taken since.

// Takes a run for the submission `owner`, or for a runner if `owner` is empty. Throws
// std::system_error.
void take_run(const RunPaths& paths, const std::string& owner);
// True if the run belongs to the submission `owner`. Takes it if nobody did.
bool belongs_to(const std::string& owner, const RunPaths& paths);

// Moves the run's checkpoints, if any, into the attempt's folder, so no other attempt resumes from
// them. Another call for this attempt moves nothing: checkpoints of a later attempt stay. Throws
// ResultsUnavailable if they cannot be moved.
void set_checkpoints_aside(const RunPaths& paths, int attempt);

// True if the run's next attempt does not go on from its checkpoints. They are set aside, because
// the attempt deletes old ones.
bool begins_anew(const RunRecord& run);

// Throws ConfigError if one of `runs` would set aside checkpoints that a queued or running run
// reads.
void check_checkpoints_are_free(const Store& store, const std::filesystem::path& results,
                                std::span<const RunRecord> runs);

// Creates the folder of a new attempt and returns its number, at least `first`. No other call has
// made this folder, so nothing in it is older. Throws ResultsUnavailable, std::system_error.
int claim_attempt(const RunPaths& paths, int first);

}  // namespace fsdp
