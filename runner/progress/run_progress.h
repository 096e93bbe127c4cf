#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contract/record/event.h"
#include "runner/store/run_status.h"

// How far the runs of a sweep are, from what their ranks report.
namespace fsdp {

using ProgressClock = std::chrono::steady_clock;

// How far a rank is: it makes its events file as soon as it has begun, and reports that it has
// started when it has met the others and has loaded all that it needs.
enum class RankStage { kNotThere, kBegun, kStarted };

struct RankProgress {
  RankStage stage = RankStage::kNotThere;
  int64_t step = 0;  // the last one that it did, 0: none yet
};

struct RunProgress {
  std::string point;
  int64_t ranks = 1;
  int64_t steps = 0;            // 0: only the trainer knows
  double tokens_of_step = 1;    // see RunOutline
  int64_t evaluates_every = 0;  // steps; 0: not
  int64_t checkpoints_every = 0;
  RunStatus status = RunStatus::kPlanned;
  std::string job{};                     // of Slurm, where it waits or runs in one
  std::string job_reason{};              // why it waits, in Slurm's word; empty: not known
  int64_t step = 0;                      // the last one that rank 0 did, 0: none yet
  int64_t steps_before = 0;              // of the checkpoint it goes on from
  std::optional<double> loss{};          // absent: none yet, or not finite
  std::optional<double> step_time_ms{};  // recent steps weigh more
  int64_t memory_allocated_bytes_max = 0;
  std::optional<ProgressClock::time_point> started{};  // absent: it has not
  std::vector<RankProgress> heard{};                   // of its first ranks, in this attempt
  std::optional<ProgressClock::time_point> news{};     // when it last came further
  int64_t evaluated_step = 0;                          // the last step that was evaluated
  int64_t saved_step = 0;                              // that of the last checkpoint
  // Of a run that has ended.
  double elapsed_s = 0;
  std::string reason{};         // empty: nothing to say
  std::filesystem::path log{};  // of the rank which `reason` is about, empty: none

  bool is_waiting() const { return status == RunStatus::kPlanned || status == RunStatus::kQueued; }
  bool has_ended() const { return !is_waiting() && status != RunStatus::kRunning; }
  bool has_failed() const {
    return has_ended() && status != RunStatus::kFinished && status != RunStatus::kOutOfMemory;
  }
  RankProgress of_rank(size_t rank) const {
    return rank < heard.size() ? heard[rank] : RankProgress();
  }
  bool has_stepped() const { return of_rank(0).step > 0; }
  // One list per rank, as EventTail::poll returns them.
  void add(std::span<const std::vector<Event>> events_of_ranks, ProgressClock::time_point now);
  void add_begun(const std::vector<bool>& begun, ProgressClock::time_point now);
  // It waits, or begins from the beginning.
  void come_to(RunStatus next, ProgressClock::time_point now);

 private:
  void bring(size_t rank, RankProgress to, ProgressClock::time_point now);
};

// From the steps that are left; absent when steps or their time are not known, or the run has
// ended.
std::optional<double> seconds_left(const RunProgress& run);

// Until all have ended, when as many run side by side as now. A run that is planned takes the time
// per token of those that finished or run, as steps differ in their batch. If its steps are not
// known it takes their mean time. Absent when nothing tells.
std::optional<double> seconds_left(std::span<const RunProgress> runs,
                                   ProgressClock::time_point now);

// "5.1234", "not finite"
std::string loss_text(std::optional<double> loss);
// "812.0 MiB", "1.25 GiB"
std::string memory_text(int64_t bytes);
// "45s", "3m 05s", "2h 03m"
std::string duration_text(double seconds);
// "37/100", "37" where the steps are not known
std::string steps_text(const RunProgress& run);
// "37/100  loss 5.1234  81.3 ms a step  0.793 GiB"; "no step" before the first one.
std::string figures_text(const RunProgress& run);
// "4xDDP: failed: rank 2 killed by signal 9 (log: ...), 37/100  loss 5.1 ..., 12s"
std::string end_line(const RunProgress& run);

// What rank 0 reported that a user is told in a line of its own.
struct Remark {
  std::string line;
  bool is_warning = false;
};
// Warnings, resumptions, evaluations, checkpoints.
std::vector<Remark> remarks(const std::string& point, std::span<const Event> events);

}  // namespace fsdp
