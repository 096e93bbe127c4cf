#include "runner/sweep/results_patience.h"

#include "runner/store/results_unavailable.h"

namespace fsdp {
namespace {

// Shorter failures, such as those while a report is being made, are not reported.
constexpr std::chrono::seconds kNotTold{2};
constexpr std::chrono::minutes kBetweenReminders{5};
constexpr std::chrono::minutes kLongestWithoutRuns{10};

class ShortLockWait {
 public:
  explicit ShortLockWait(Store& store) : store_(store) {
    store_.set_lock_wait(std::chrono::milliseconds(250));
  }
  ~ShortLockWait() { store_.set_lock_wait(kLockWait); }
  ShortLockWait(const ShortLockWait&) = delete;
  ShortLockWait& operator=(const ShortLockWait&) = delete;

 private:
  Store& store_;
};

}  // namespace

bool ResultsPatience::attempt(const std::function<void()>& record) {
  const ShortLockWait short_wait(store_);
  try {
    record();
  } catch (const std::exception& error) {
    if (!may_pass(error)) throw;
    remind(error.what());
    return false;
  }
  if (!reminded_of_.empty()) progress_.say("results are recorded again");
  failing_since_.reset();
  without_runs_since_.reset();
  reminded_of_.clear();
  return true;
}

void ResultsPatience::remind(const std::string& cause) {
  const Clock::time_point now = Clock::now();
  cause_ = cause;
  if (!failing_since_) failing_since_ = now;
  if (now - *failing_since_ < kNotTold) return;
  if (cause == reminded_of_ && now - reminded_at_ < kBetweenReminders) return;
  reminded_of_ = cause;
  reminded_at_ = now;
  progress_.warn("waits: " + cause +
                 "; runs under way go on, and what they report is kept in their files");
}

void ResultsPatience::wait_without_runs(bool user_waits) {
  const Clock::time_point now = Clock::now();
  if (!without_runs_since_) without_runs_since_ = now;
  if (user_waits && now - *without_runs_since_ < kLongestWithoutRuns) return;
  throw GaveUp(cause_ +
               "; nothing is lost: what runs reported is in their files, and the next call "
               "records it");
}

}  // namespace fsdp
