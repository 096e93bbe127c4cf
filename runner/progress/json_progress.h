#pragma once

#include <map>

#include "runner/progress/progress.h"

namespace fsdp {

// For a program that drives this one: one JSON object a line on stdout, each with `kind`:
//
//   message, warning  text
//   run_planned       point, ranks, steps (0: only the trainer knows); each once, before
//                     run_queued and run_started
//   run_queued        point, job: it waits in this job of Slurm, for the first time or again
//   run_started       point
//   run_progress      point, step, steps, loss, step_time_ms, memory_allocated_bytes_max,
//                     seconds_left, sweep_seconds_left; when a run has done a step since the last
//   run_waits         point, for (queue, ranks, loading, first_step, step, evaluation, checkpoint,
//                     end), text, seconds: it does no step for longer than is to be expected; once
//   run_ended         point, status, reason, log, step, elapsed_s
//
// Figures that are not known are null.
class JsonProgress : public Progress {
 public:
  void say(std::string_view line) override;
  void warn(std::string_view line) override;

 private:
  void show(const RunProgress& run) override;
  void update(ProgressClock::time_point now) override;
  void show_waits(std::span<const RunThatWaits> runs, ProgressClock::time_point now) override;

  std::map<size_t, int64_t> shown_steps_;  // by the run's index
};

}  // namespace fsdp
