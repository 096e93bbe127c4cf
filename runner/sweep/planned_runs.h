#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/store/store.h"

namespace fsdp {

// Throws ConfigError, with the place that sets it, if an input file does not fit its run. Runs that
// read the same files with the same model are checked once.
void check_inputs_of(const Expansion& expansion);

// Throws ConfigError, with the place that sets it, if a run could not be submitted to Slurm.
void check_jobs_of(const Expansion& expansion);

// True if `spec` passes check_inputs() whenever `checked` does.
bool reads_the_same(const RunSpec& spec, const RunSpec& checked);

// Returns the run with its identity and its intended folder, runs/<experiment>/<point>-<hash8>
// below the results.
RunRecord planned_run(const Experiment& experiment, Run run, const FileDigest& digest);

std::vector<RunRecord> planned_runs(const Experiment& experiment, std::vector<Run> runs,
                                            const FileDigest& digest);

// Plans the runs that --only leaves out, except those with unreadable input files.
std::vector<RunRecord> left_out_runs(const Experiment& experiment, std::vector<Run> runs,
                                             const FileDigest& digest);

// Wraps `digest` to compute it once per file.
FileDigest remembered(FileDigest digest);

}  // namespace fsdp
