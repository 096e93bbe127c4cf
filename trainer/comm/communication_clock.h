#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace fsdp {

// Adds up how long this rank's operations with other ranks were under way, in all groups that were
// made of one another.
//
// An operation's time includes waiting for ranks that are later, and operations that overlap count
// each. Groups add to it from their threads; start() and stop() are called from one thread, with no
// operation in flight on the CPU.
class CommunicationClock {
 public:
  // An operation on a device, which may not have begun yet.
  class Interval {
   public:
    virtual ~Interval() = default;
    // Waits until the device has passed the operation.
    virtual double milliseconds() const = 0;
  };

  // The sum of some operations.
  class Sum {
   public:
    // Waits for the device; on the CPU there is nothing to wait for.
    double milliseconds() const;

   private:
    friend CommunicationClock;
    double known_ms_ = 0;
    std::vector<std::shared_ptr<const Interval>> intervals_;
  };

  // Operations count from now on.
  void start();
  // Of the operations issued since start(); later ones do not count.
  Sum stop();

  void add(double milliseconds);
  void add(std::shared_ptr<const Interval> interval);

 private:
  std::mutex mutex_;
  bool counting_ = false;
  Sum sum_;
};

}  // namespace fsdp
