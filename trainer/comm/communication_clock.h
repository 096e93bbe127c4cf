#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fsdp {

// Measures how long this rank's operations with other ranks are under way, in a group and all its
// subgroups.
//
// Time with several operations under way counts once. On a device, the wait behind an earlier
// operation of the same communicator looks like part of the operation, but therefore adds nothing.
// Waiting for slower ranks counts. Groups add operations from their threads. One thread calls
// start() and stop(), with no operation in flight on the CPU.
class CommunicationClock {
 public:
  struct Span {
    double begin_ms = 0;
    double end_ms = 0;
  };
  struct Label {
    const char* name = "";
    int unit = -1;      // of the model; -1: none
    int64_t bytes = 0;  // of the whole tensor
  };
  struct LabelledSpan : Label, Span {};

  // The time of an operation. On a device, it may not have begun yet.
  class Interval {
   public:
    virtual ~Interval() = default;
    // Returns the operation's span, in milliseconds since the begin of `origin`. `origin` is on the
    // same kind of device and has begun. Waits until the operation has ended.
    virtual Span after(const Interval& origin) const = 0;
  };

  // The operations of a period.
  class Operations {
   public:
    // Returns the time with at least one operation under way. Waits for the device; on the CPU
    // there is nothing to wait for.
    double milliseconds() const;
    // Returns the operations in the order in which they were issued, in milliseconds since
    // `origin`. Waits for the device.
    std::vector<LabelledSpan> after(const Interval& origin) const;

   private:
    friend CommunicationClock;
    std::vector<std::pair<Label, std::shared_ptr<const Interval>>> operations_;
  };

  // Returns this moment on the CPU.
  static std::shared_ptr<const Interval> now();

  // Counts operations from now on.
  void start();
  // Returns the operations issued since start(); later ones do not count.
  Operations stop();

  // Adds an operation that is over.
  void add(const Label& label, std::chrono::steady_clock::time_point begin,
           std::chrono::steady_clock::time_point end);
  void add(const Label& label, std::shared_ptr<const Interval> interval);

 private:
  std::mutex mutex_;
  bool counting_ = false;
  Operations operations_;
};

}  // namespace fsdp
