#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fsdp {

// Measures how long this rank's operations with other ranks were under way, in all groups that were
// made from one another.
//
// Time with several under way counts once. Waiting behind another operation of the same
// communicator therefore adds nothing; a device cannot tell it from the operation itself. Waiting
// for later ranks counts. Groups add operations from their threads. One thread calls start() and
// stop(), with no operation in flight on the CPU.
class CommunicationClock {
 public:
  struct Span {
    double begin_ms = 0;
    double end_ms = 0;
  };

  // An operation. On a device, it may not have begun yet.
  class Interval {
   public:
    virtual ~Interval() = default;
    // Returns the span in milliseconds after the begin of `origin`, an interval on the same kind of
    // device. Waits until the device has passed the operation; it has already passed `origin`.
    virtual Span after(const Interval& origin) const = 0;
  };

  // The operations of a period.
  class Operations {
   public:
    // Returns the time with at least one operation under way. Waits for the device; on the CPU
    // there is nothing to wait for.
    double milliseconds() const;

   private:
    friend CommunicationClock;
    std::vector<std::shared_ptr<const Interval>> intervals_;
  };

  // Counts operations from now on.
  void start();
  // Returns the operations issued since start(); later ones do not count.
  Operations stop();

  // Adds an operation that is over.
  void add(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end);
  void add(std::shared_ptr<const Interval> interval);

 private:
  std::mutex mutex_;
  bool counting_ = false;
  Operations operations_;
};

}  // namespace fsdp
