#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "runner/attempt/attempt.h"
#include "runner/jobs/queue_sweep.h"
#include "runner/launch/queue.h"

// Brings open jobs up to date once, without submitting anything.
namespace fsdp {

// The caller holds the experiment's lock. Reads the jobs' files even if Slurm does not answer.
// Returns false if it did not.
bool refresh_jobs(const RunListeners& listeners, Queue& queue, std::string_view experiment,
                  const Pauses& pauses);

// Refreshes the open jobs of all experiments that no other runner works on. Returns the experiments
// whose jobs Slurm could not be asked about.
std::set<std::string> refresh_free_jobs(Store& store, const std::filesystem::path& results,
                                        Queue& queue, const Pauses& pauses);

}  // namespace fsdp
