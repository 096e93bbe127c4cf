#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "runner/progress/progress.h"
#include "runner/store/store.h"

namespace fsdp {

// The results could not be recorded for so long after the last run had ended that the sweep gave
// up. Runs' events are in their files, from which the next call records them.
class GaveUp : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Training does not depend on the results folder: what cannot be recorded for now (may_pass) is
// told and tried again, however long it takes while runs are under way.
class ResultsPatience {
 public:
  ResultsPatience(Store& store, Progress& progress) : store_(store), progress_(progress) {}

  // Whether `record` could be done; it waits for no lock for long, as there are signals and ends of
  // runs to hear. The user is told why not when that lasts, and again when the cause changes or
  // lasts on. Throws what will not pass.
  bool attempt(const std::function<void()>& record);
  // When attempt() has failed and no run is under way: throws GaveUp at the end of patience, or at
  // once when the user does not want to wait.
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
  std::string reminded_of_;  // the cause that the user was told
};

}  // namespace fsdp
