#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace fsdp {

// A piece of a step's work, as it is timed and planned. Pieces of one name differ by size.
struct Work {
  std::string name;   // "model.layers.*/7079424 forward", "optimizer"
  int64_t rows = 1;   // of a module's batch
  int64_t width = 0;  // tokens of a row; for other work, elements
};

// Names of the work outside modules.
inline constexpr const char* kOptimizerWork = "optimizer";
inline constexpr const char* kNormWork = "norm of gradients";
inline constexpr const char* kConvertWork = "conversion";
inline constexpr const char* kAddWork = "addition";
inline constexpr const char* kToHostWork = "copy to the host";
inline constexpr const char* kToDeviceWork = "copy to the device";
inline constexpr const char* kRestOfStep = "rest of a step";  // between all other work

// Called when work begins and ends, on the thread that issues it.
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
  explicit WorkScope(Describe&& describe) : observer_(observing_) {
    if (observer_ != nullptr) observer_->begin(describe());
  }
  ~WorkScope() {
    if (observer_ != nullptr) observer_->end();
  }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  friend class ObservedWork;

  WorkObserver* observer_;
  static inline WorkObserver* observing_ = nullptr;
};

// While it exists, `observer` observes all work of the process.
class ObservedWork {
 public:
  explicit ObservedWork(WorkObserver& observer)
      : outer_(std::exchange(WorkScope::observing_, &observer)) {}
  ~ObservedWork() { WorkScope::observing_ = outer_; }
  ObservedWork(const ObservedWork&) = delete;
  ObservedWork& operator=(const ObservedWork&) = delete;

 private:
  WorkObserver* outer_;
};

}  // namespace fsdp
