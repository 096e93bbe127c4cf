#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "runner/progress/progress.h"
#include "runner/store/store.h"

namespace fsdp {

// Thrown if results could not be recorded for too long after the last run ended. The runs' events
// stay in their files, and the next call records them.
class GaveUp : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reports and retries what cannot be recorded for now (may_pass). Training does not need the
// results folder, so retries continue while runs are under way.
class ResultsPatience {
 public:
  ResultsPatience(Store& store, Progress& progress) : store_(store), progress_(progress) {}

  // Returns true if `record` succeeded. Waits only briefly for locks, because signals and ends of
  // runs need attention. Reports the cause if the failure lasts, and again if the cause changes or
  // persists. Rethrows errors that will not pass.
  bool attempt(const std::function<void()>& record);
  // Call this if attempt() failed and no run is under way. Throws GaveUp when patience ends, or at
  // once if the user does not want to wait.
  void wait_without_runs(bool user_waits);
  void runs_are_under_way() { without_runs_since_.reset(); }

 private:
  using Clock = std::chrono::steady_clock;

  void remind(const std::string& cause);

  Store& store_;
  Progress& progress_;
  std::optional<Clock::time_point> failing_since_{};
  std::optional<Clock::time_point> without_runs_since_{};
  Clock::time_point reminded_at_{};
  std::string cause_;
  std::string reminded_of_;  // the cause last reported
};

}  // namespace fsdp
