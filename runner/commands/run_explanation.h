#pragma once

#include <filesystem>
#include <string>

#include "runner/store/store.h"

// Why a run ran, was skipped, or failed.
namespace fsdp {

// How it stands and what the next call of fsdp-run does with it, with its job and its attempts.
std::string explain_status(const Store& store, const RunRecord& run,
                           const std::filesystem::path& results);

// The end of the log of the rank that failed first; empty when no attempt did, or there is no log.
std::string explain_failure(const Store& store, const RunRecord& run,
                            const std::filesystem::path& results);

// What its identity is made of, and the first key that differs from the nearest earlier run of the
// experiment: one of the same point, else the one with the fewest differences.
std::string explain_identity(const Store& store, const RunRecord& run);

// A shell's command that starts one rank as the runner did: rank `rank` of the newest attempt, in
// an attempt folder of its own. Empty when the run's folder has no run.yaml yet.
std::string reproduction(const Store& store, const RunRecord& run, int rank,
                         const std::filesystem::path& results,
                         const std::filesystem::path& trainer);

}  // namespace fsdp
