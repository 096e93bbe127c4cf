#include <catch2/catch.hpp>

#include "runner/experiment/experiment.h"
#include "runner/progress/live_view.h"
#include "runner/table/terminal_text.h"
#include "tests/runner/progress/progress_fixture.h"

// The live view of the shipped experiments, with the names and profiles that they have.
namespace fsdp {
namespace {

// Returns the run in each state, with progress that makes its cells wide.
std::vector<RunProgress> states_of(const Run& run, ProgressClock::time_point now) {
  RunProgress queued = planned_progress(run.point, 1'000'000);
  queued.job = "123456789_1000";
  queued.job_reason = "ReqNodeNotAvail, May be reserved for other job";
  queued.set_status(RunStatus::kQueued, now - std::chrono::hours(30));
  RunProgress silent = planned_progress(run.point, 1'000'000);
  silent.ranks = run.spec.strategy.ranks;
  silent.set_status(RunStatus::kRunning, now - std::chrono::hours(30));
  RunProgress stuck = running_progress(run.point, 1'000'000, 999'999, 12'345, now);
  stuck.news = now - std::chrono::hours(30);
  return {planned_progress(run.point, 0),
          queued,
          silent,
          running_progress(run.point, 1'000'000, 999'999, 12'345, now),
          stuck,
          ended_progress(run.point, RunStatus::kOutOfMemory, 1'000'000, 1e6)};
}

TEST_CASE("no line of the live view of a shipped experiment is wider than the terminal") {
  const ProgressClock::time_point now = ProgressClock::now();
  size_t experiments = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FSDP_EXPERIMENTS_FOLDER)) {
    if (entry.path().extension() != ".yaml") continue;
    ++experiments;
    std::vector<RunProgress> runs;
    for (const int64_t gpus : {0, 4}) {
      const Resources host{.gpu_count = gpus, .gpu_memory_gib = 79.2};
      for (const Run& run : Experiment::load(entry.path()).expand({}, host).runs) {
        for (RunProgress& state : states_of(run, now)) runs.push_back(std::move(state));
      }
    }
    for (const size_t columns : {60, 80, 120, 200}) {
      for (const std::string& line : live_view(runs, {}, {columns, 1'000}, now, false)) {
        INFO(entry.path() << ": " << line);
        CHECK(display_width(line) < columns);
      }
    }
  }
  CHECK(experiments >= 7);
}

}  // namespace
}  // namespace fsdp
