#pragma once

#include <span>

#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "runner/attempt/open_attempt.h"
#include "runner/store/store.h"

// What a run's folder holds before its ranks are started.
namespace fsdp {

// Throws ResultsUnavailable when the results folder is not: it may have been moved away for a
// while, and nothing is made in its place.
void check_are_there(const std::filesystem::path& results);

// run.yaml: whoever reads it sees the old or the new text, never a part. Throws ResultsUnavailable.
void write_spec(const RunPaths& paths, const RunSpec& spec);

// The run's checkpoints, if there are any, go into the attempt's folder, so that no other attempt
// goes on from them; once, those of a later attempt stay. Throws ResultsUnavailable when they
// cannot be moved.
void set_checkpoints_aside(const RunPaths& paths, int attempt);

// Throws ConfigError when one of the runs would set aside what another one, which waits in a job or
// is running, resumes from.
void check_checkpoints_are_free(const Store& store, const std::filesystem::path& results,
                                std::span<const RunToLaunch> runs);

// The number of a new attempt, at least `first`, whose folder this call has made and no other one:
// nothing in it is older. Throws ResultsUnavailable, std::system_error.
int claim_attempt(const RunPaths& paths, int first);

}  // namespace fsdp
