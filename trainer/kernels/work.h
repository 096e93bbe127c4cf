#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "contract/record/step_account.h"
#include "trainer/memory/memory_label.h"

namespace fsdp {

// A piece of a step's work. Pieces may be within others.
struct Work {
  // "model.layers.*/7079424 forward", "optimizer". Pieces of one name differ by size. A piece with
  // a name is calibrated and planned as a whole. Empty: a part of other work, or a wait.
  std::string name{};
  int64_t rows = 1;   // of a module's batch
  int64_t width = 0;  // tokens of a row; for other work, elements
  // For parts with forward and backward, the one of forward.
  TimePart part = TimePart::kOther;
};

// Names of the work outside modules.
inline constexpr const char* kOptimizerWork = "optimizer";
inline constexpr const char* kNormWork = "norm of gradients";
inline constexpr const char* kConvertWork = "conversion";
inline constexpr const char* kAddWork = "addition";
inline constexpr const char* kToHostWork = "copy to the host";
inline constexpr const char* kToDeviceWork = "copy to the device";
inline constexpr const char* kRestOfStep = "rest of a step";  // between all other work

// Returns the part of the time that work of `part` takes in the phase of this thread.
inline TimePart part_now(TimePart part) {
  const bool is_backward = MemoryScope::current().phase == MemoryPhase::kBackward;
  return is_backward ? in_backward(part) : part;
}

// Called when work begins and ends, on the thread that issues it, which may be the optimizer's.
class WorkObserver {
 public:
  virtual ~WorkObserver() = default;
  virtual void begin(const Work& work) = 0;
  virtual void end() = 0;
};

// While it exists, all issued work is one piece. `describe` returns the piece; it is only called if
// anyone observes.
//
// To add a piece of work whose time is planned: make a WorkScope where the work is issued, and
// measure the piece in trainer/calibrate/.
class WorkScope {
 public:
  template <typename Describe>
  explicit WorkScope(Describe&& describe) : observer_(observing_.load()) {
    if (observer_ != nullptr) observer_->begin(describe());
  }
  // Work without a name.
  explicit WorkScope(TimePart part) : WorkScope([&] { return Work{.part = part}; }) {}
  ~WorkScope() {
    if (observer_ != nullptr) observer_->end();
  }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  friend class ObservedWork;

  WorkObserver* observer_;
  static inline std::atomic<WorkObserver*> observing_ = nullptr;
};

// While it exists, `observer` observes all work of the process. Work that has begun may end later,
// on the optimizer's thread.
class ObservedWork {
 public:
  explicit ObservedWork(WorkObserver& observer)
      : outer_(WorkScope::observing_.exchange(&observer)) {}
  ~ObservedWork() { WorkScope::observing_ = outer_; }
  ObservedWork(const ObservedWork&) = delete;
  ObservedWork& operator=(const ObservedWork&) = delete;

 private:
  WorkObserver* outer_;
};

}  // namespace fsdp
