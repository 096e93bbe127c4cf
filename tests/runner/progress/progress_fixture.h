#pragma once

#include <string>
#include <vector>

#include "runner/progress/run_progress.h"

// States of a sweep.
namespace fsdp {

inline Event step_event(int64_t number, double step_time_ms, int64_t memory_bytes) {
  StepDone done;
  done.step = number;
  done.loss = 2.5;
  done.step_time_ms = step_time_ms;
  done.memory_allocated_bytes_max = memory_bytes;
  return {.body = done};
}

// A run that goes on, and the reports of its ranks.
struct FollowedRun : RunProgress {
  explicit FollowedRun(RunProgress outline)
      : RunProgress(std::move(outline)),
        begun(static_cast<size_t>(ranks)),
        reports({.ranks = ranks}) {}

  void add(const std::vector<std::vector<Event>>& events_of_ranks, ProgressClock::time_point now) {
    reports.add(events_of_ranks);
    take(reports, begun, now);
  }
  void add_begun(std::vector<bool> ranks_begun, ProgressClock::time_point now) {
    begun = std::move(ranks_begun);
    take(reports, begun, now);
  }

  std::vector<bool> begun;
  AttemptReports reports;
};

inline RunProgress planned_progress(std::string point, int64_t steps) {
  return {.point = std::move(point), .steps = steps};
}

inline RunProgress running_progress(std::string point, int64_t steps, int64_t step,
                                    double step_time_ms, ProgressClock::time_point now) {
  FollowedRun run(planned_progress(std::move(point), steps));
  run.status = RunStatus::kRunning;
  run.started = now - std::chrono::seconds(5);
  if (step > 0)
    run.add(std::vector<std::vector<Event>>{{step_event(step, step_time_ms, int64_t{2} << 30)}},
            now);
  return run;
}

inline RunProgress ended_progress(std::string point, RunStatus status, int64_t steps,
                                  double elapsed_s) {
  FollowedRun run(planned_progress(std::move(point), steps));
  run.add(std::vector<std::vector<Event>>{{step_event(steps, 500, int64_t{1} << 30)}},
          ProgressClock::time_point());
  run.status = status;
  run.elapsed_s = elapsed_s;
  return run;
}

}  // namespace fsdp
