#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/record/event.h"
#include "runner/store/attempt_reports.h"
#include "runner/store/run_status.h"

// The progress of a sweep's runs, from their ranks' events.
namespace fsdp {

using ProgressClock = std::chrono::steady_clock;

// The stage of a rank. A rank creates its events file as soon as it begins. It reports its start
// after it has met the other ranks and loaded everything.
enum class RankStage { kNotThere, kBegun, kStarted };

struct RankProgress {
  RankStage stage = RankStage::kNotThere;
  int64_t step = 0;  // the last one it did; 0: none yet

  bool operator==(const RankProgress&) const = default;
};

struct RunProgress {
  std::string point;
  int64_t ranks = 1;
  int64_t steps = 0;            // 0: only the trainer knows
  double tokens_of_step = 1;    // of one rank on GPUs, of all ranks on the CPU
  int64_t evaluates_every = 0;  // steps; 0: never
  int64_t checkpoints_every = 0;
  RunStatus status = RunStatus::kPlanned;
  std::string job{};          // the Slurm job that it waits or runs in
  std::string job_reason{};   // why it waits, in Slurm's words; empty: not known
  AttemptProgress attempt{};  // how far its attempt is
  std::optional<ProgressClock::time_point> started{};  // nullopt: not yet
  std::vector<RankProgress> rank_progress{};           // by rank, in this attempt; may be shorter
  std::optional<ProgressClock::time_point> news{};     // time of the last progress
  // Known once the run has ended.
  double elapsed_s = 0;
  std::string reason{};         // empty: nothing to say
  std::filesystem::path log{};  // of the rank that `reason` is about; empty: none

  bool is_waiting() const { return status == RunStatus::kPlanned || status == RunStatus::kQueued; }
  bool has_ended() const { return !is_waiting() && status != RunStatus::kRunning; }
  bool has_failed() const { return has_ended() && !is_result(status); }
  RankProgress of_rank(size_t rank) const {
    return rank < rank_progress.size() ? rank_progress[rank] : RankProgress();
  }
  bool has_stepped() const { return of_rank(0).step > 0; }
  // Takes the members up to `checkpoints_every`. They are unknown while a run is only expected.
  void take_outline(const RunProgress& outline);
  // Takes the reports of the present attempt. `begun` says which ranks have begun.
  void take(const AttemptReports& reports, const std::vector<bool>& begun,
            ProgressClock::time_point now);
  // Changes the status to a waiting one, or to kRunning. Forgets the progress of the ranks.
  void set_status(RunStatus next, ProgressClock::time_point now);
};

// Estimates the time of the remaining steps. nullopt if it is unknown or the run has ended.
std::optional<double> seconds_left(const RunProgress& run);

// Estimates the time until all runs end, if as many run side by side as now. A planned run is
// expected to take the same time per token as finished and running ones, because batches differ
// between runs. If its number of steps is not known, it is expected to take their mean time.
// nullopt if no run gives an estimate.
std::optional<double> seconds_left(std::span<const RunProgress> runs,
                                   ProgressClock::time_point now);

// "5.1234", "not finite"
std::string loss_text(std::optional<double> loss);
// "45s", "3m 05s", "2h 03m"
std::string duration_text(double seconds);
// "37/100"; "37" if the number of steps is not known
std::string steps_text(const RunProgress& run);
// "37/100  loss 5.1234  81.3 ms a step  0.793 GiB"; "no step" before the first one.
std::string figures_text(const RunProgress& run);
// "4xDDP: failed: rank 2 killed by signal 9 (log: ...), 37/100  loss 5.1 ..., 12s"
std::string end_line(const RunProgress& run);

// A report of rank 0 that has a line of its own.
struct Remark {
  std::string line;
  bool is_warning = false;
};
// Returns warnings, resumptions, evaluations and checkpoints.
std::vector<Remark> remarks(const std::string& point, std::span<const Event> events);

// --- waits: the reason why a run does no step ---

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

// Returns what the run waits for. nullopt unless the run is queued or running.
std::optional<Waiting> waiting(const RunProgress& run, ProgressClock::time_point now);

// "35s without a step: rendezvous: rank 2 has not begun, of 4", "35s in the queue (Resources)"
std::string waiting_text(const Waiting& waiting, ProgressClock::time_point now);

}  // namespace fsdp
