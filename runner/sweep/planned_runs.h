#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/store/store.h"

namespace fsdp {

// Throws ConfigError, with the place that asks for it, when an input file of one of the runs does
// not fit it. Runs that read the same files with the same model are checked once.
void check_inputs_of(const Expansion& expansion);

// Throws ConfigError, with the place that asks for it, when one of the runs could not be submitted
// to Slurm.
void check_jobs_of(const Expansion& expansion);

// Whether check_inputs has nothing to say of `spec` when it had nothing to say of `checked`.
bool reads_the_same(const RunSpec& spec, const RunSpec& checked);

// A run with its identity and the folder that it wants, runs/<experiment>/<point>-<hash8> below the
// results.
Store::PlannedRun planned_run(const Experiment& experiment, Run run, const FileDigest& digest);

std::vector<Store::PlannedRun> planned_runs(const Experiment& experiment, std::vector<Run> runs,
                                            const FileDigest& digest);

// The runs that --only leaves out, planned, but for any whose input files cannot be read.
std::vector<Store::PlannedRun> left_out_runs(const Experiment& experiment, std::vector<Run> runs,
                                             const FileDigest& digest);

// `digest`, but each file only once.
FileDigest remembered(FileDigest digest);

}  // namespace fsdp
