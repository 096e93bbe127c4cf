#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "contract/record/step_account.h"
#include "contract/record/step_trace.h"
#include "trainer/backend/step_clock.h"
#include "trainer/comm/process_group.h"
#include "trainer/kernels/work.h"
#include "trainer/train/memory_trace.h"

namespace fsdp {

// Accounts for the time of some steps of this rank. Every moment of the stream that computes
// belongs to the innermost piece of work that was begun there. The parts therefore add up to the
// step. Work on other streams and threads does not count. Waits for it do. A trace of a step has
// all of its pieces, those on other streams too, but not those on other threads.
class StepAccounts : public WorkObserver {
 public:
  // The boundaries between pieces of one step's work. The device may still be computing.
  class Step {
   private:
    friend StepAccounts;
    struct Piece {
      std::string name;  // empty: only a part of the time
      int unit;
    };
    struct Boundary {
      std::unique_ptr<StepClock::Mark> mark;
      TimePart next;               // part of the time after the boundary
      bool begins_wait;            // for a collective
      std::optional<Piece> piece;  // that begins; nullopt: the innermost one ends
    };
    struct Beside {
      Piece piece;
      std::unique_ptr<StepClock::Mark> begin, end;
    };
    std::vector<Boundary> boundaries_;
    std::vector<Beside> beside_;
    int64_t begin_unix_ms_ = 0;
    int64_t memory_changes_before_ = 0;
    int64_t memory_changes_at_end_ = 0;
    std::unique_ptr<StepClock::Mark> begin_;
    std::shared_ptr<const CommunicationClock::Interval> communication_begin_;
  };

  // Accounts for `count` steps after step `after`, and traces the first `traced` of them. The
  // current stream of `device` is the one that computes. `world` and `memory`, which may be null,
  // outlive the object.
  StepAccounts(at::Device device, ProcessGroup& world, int64_t after, int64_t count, int64_t traced,
               MemoryTrace* memory);

  bool wants(int64_t step) const { return step > after_ && step <= after_ + count_; }

  // Observe from now on; return the boundaries since begin().
  void begin_step(int64_t step);
  Step end_step();

  // Adds a step between two marks. Waits for the device.
  void add(int64_t step, const Step& work, const StepClock::Mark& begin, StepClock::Mark& end,
           const CommunicationClock::Operations& communication);
  // Returns the accounts so far, and forgets them. Every rank calls it after the same step, because
  // ranks compare their waits: the rank that waited least for a collective came last.
  std::vector<StepAccount> take();
  // Returns the trace of all traced steps that were added; has_trace(): there are some.
  bool has_trace() const { return !traces_.empty(); }
  RankTrace trace() const;
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
  bool is_traced(int64_t step) const { return step > after_ && step <= after_ + traced_; }
  // True if work that is issued now is for the stream that computes.
  bool computes_now() const;
  std::vector<double> least_waits() const;
  static StepTrace trace_of(int64_t step, const Step& work, const StepClock::Mark& begin,
                            StepClock::Mark& end,
                            const CommunicationClock::Operations& communication);

  ProcessGroup& world_;
  int64_t after_;
  int64_t count_;
  int64_t traced_;
  MemoryTrace* memory_;
  StepClock clock_;
  c10::Stream computes_;
  std::thread::id thread_ = std::this_thread::get_id();
  std::optional<ObservedWork> observed_;
  Step step_;  // the one under way
  bool traces_step_ = false;
  std::vector<std::optional<TimePart>> work_;  // under way, innermost last; nullopt: beside
  std::vector<size_t> beside_;                 // of the step's, under way, innermost last
  std::vector<Account> accounts_;
  std::vector<StepTrace> traces_;
};

}  // namespace fsdp
