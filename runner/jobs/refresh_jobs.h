#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "runner/attempt/open_attempt.h"
#include "runner/jobs/queue_sweep.h"
#include "runner/launch/queue.h"

// Open jobs brought up to date without following them: nothing is submitted.
namespace fsdp {

// For whoever holds the experiment's lock. What jobs wrote is read also when Slurm does not answer.
// False: it did not.
bool refresh_jobs(const RunListeners& listeners, Queue& queue, std::string_view experiment,
                  const Pauses& pauses);

// Refreshes the open jobs of all experiments that no other runner works on. Returns the experiments
// of which Slurm could not be asked.
std::set<std::string> refresh_free_jobs(Store& store, const std::filesystem::path& results,
                                        Queue& queue, const Pauses& pauses);

}  // namespace fsdp
