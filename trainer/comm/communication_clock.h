#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fsdp {

// Tells how long this rank's operations with other ranks were under way, in all groups that were
// made of one another.
//
// Time in which several are under way counts once; so waiting behind another operation of the same
// communicator adds nothing, which a device cannot tell from the operation itself. Waiting for
// ranks that are later counts. Groups add to it from their threads; start() and stop() are called
// from one thread, with no operation in flight on the CPU.
class CommunicationClock {
 public:
  struct Span {
    double begin_ms = 0;
    double end_ms = 0;
  };

  // An operation, which on a device may not have begun yet.
  class Interval {
   public:
    virtual ~Interval() = default;
    // In milliseconds after the begin of `origin`, which is an interval of the same kind of device.
    // Waits until the device has passed the operation; it has passed `origin`.
    virtual Span after(const Interval& origin) const = 0;
  };

  // The operations of a time.
  class Operations {
   public:
    // In which at least one was under way. Waits for the device; on the CPU there is nothing to
    // wait for.
    double milliseconds() const;

   private:
    friend CommunicationClock;
    std::vector<std::shared_ptr<const Interval>> intervals_;
  };

  // Operations count from now on.
  void start();
  // Those issued since start(); later ones do not count.
  Operations stop();

  // An operation that is over.
  void add(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end);
  void add(std::shared_ptr<const Interval> interval);

 private:
  std::mutex mutex_;
  bool counting_ = false;
  Operations operations_;
};

}  // namespace fsdp
