#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "runner/progress/run_progress.h"

// The reason why a run does no step, from its ranks' events.
namespace fsdp {

enum class WaitsFor { kQueue, kRanks, kLoading, kFirstStep, kStep, kEvaluation, kCheckpoint, kEnd };

constexpr auto enum_names(WaitsFor) {
  return std::array<std::string_view, 8>{"queue", "ranks",      "loading",    "first_step",
                                         "step",  "evaluation", "checkpoint", "end"};
}

struct Waiting {
  WaitsFor what = WaitsFor::kStep;
  std::string text{};  // "rendezvous: rank 2 has not begun, of 4"
  ProgressClock::time_point since;
  bool is_long = false;  // longer than expected
};

// Returns one or two words for the stage of a run that has started but done no step.
std::string_view start_text(const RunProgress& run);

// nullopt unless the run is queued or running.
std::optional<Waiting> waiting(const RunProgress& run, ProgressClock::time_point now);

// "35s without a step: rendezvous: rank 2 has not begun, of 4", "35s in the queue (Resources)"
std::string waiting_text(const Waiting& waiting, ProgressClock::time_point now);

}  // namespace fsdp
