#pragma once

#include <map>

#include "runner/progress/progress.h"

namespace fsdp {

// Prints to stdout for a program that drives this one. Each line is a JSON object with a `kind`:
//
//   message, warning  text
//   run_planned       point, ranks, steps (0: only the trainer knows). Once per run, before
//                     run_queued and run_started.
//   run_queued        point, job. The run waits in this Slurm job, for the first time or again.
//   run_started       point
//   run_progress      point, step, steps, loss, step_time_ms, memory_allocated_bytes_max,
//                     seconds_left, sweep_seconds_left. The run did a step since the last one.
//   run_waits         point, for (queue, ranks, loading, first_step, step, evaluation, checkpoint,
//                     end), text, seconds. The run does no step for longer than expected. Once per
//                     wait.
//   run_ended         point, status, reason, log, step, elapsed_s
//
// Unknown figures are null.
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
