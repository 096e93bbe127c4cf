#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "contract/record/step_account.h"
#include "trainer/backend/step_clock.h"
#include "trainer/comm/process_group.h"
#include "trainer/kernels/work.h"

namespace fsdp {

// Accounts for the time of some steps of this rank. Every moment of the stream that computes
// belongs to the innermost piece of work that was begun there. The parts therefore add up to the
// step. Work on other streams and threads does not count. Waits for it do.
class StepAccounts : public WorkObserver {
 public:
  // The boundaries between pieces of one step's work. The device may still be computing.
  class Step {
   private:
    friend StepAccounts;
    struct Boundary {
      std::unique_ptr<StepClock::Mark> mark;
      TimePart next;     // part of the time after the boundary
      bool begins_wait;  // for a collective
    };
    std::vector<Boundary> boundaries_;
  };

  // Accounts for `count` steps after step `after`. The current stream of `device` is the one that
  // computes. `world` outlives the object.
  StepAccounts(at::Device device, ProcessGroup& world, int64_t after, int64_t count);

  bool wants(int64_t step) const { return step > after_ && step <= after_ + count_; }

  // Observe from now on; return the boundaries since begin().
  void begin_step();
  Step end_step();

  // Adds a step between two marks. Waits for the device.
  void add(int64_t step, const Step& work, const StepClock::Mark& begin, StepClock::Mark& end,
           double communication_time_ms);
  // Returns the accounts so far, and forgets them. Every rank calls it after the same step, because
  // ranks compare their waits: the rank that waited least for a collective came last.
  std::vector<StepAccount> take();
  bool is_complete() const { return std::ssize(accounts_) == count_; }

  void begin(const Work& work) override;
  void end() override;

 private:
  // A step's account, and how long the rank waited for each collective.
  struct Account {
    StepAccount event;
    std::vector<std::pair<TimePart, double>> waits_ms;
  };

  bool is_on_another_thread() const { return std::this_thread::get_id() != thread_; }
  // True if work that is issued now is for the stream that computes.
  bool computes_now() const;
  std::vector<double> least_waits() const;

  ProcessGroup& world_;
  int64_t after_;
  int64_t count_;
  StepClock clock_;
  c10::Stream computes_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::optional<ObservedWork> observed_;
  Step step_;                                  // the one under way
  std::vector<std::optional<TimePart>> work_;  // under way, innermost last; nullopt: beside
  std::vector<Account> accounts_;
};

}  // namespace fsdp
