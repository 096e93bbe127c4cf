#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace fsdp {

// Knows the operations between ranks that are under way, and says which one takes too long.
//
// The waiting thread cannot say so itself: on a device it may be inside a driver's call, and the
// transports' own timeouts name no unit or end the process. Time in which this process was
// suspended as a whole does not count.
class Watchdog {
  struct Operation;
  using Operations = std::list<Operation>;

 public:
  // Gets one line that names the operation; called on the watchdog's thread, for the first
  // one of those that time out together.
  using OnTimeout = std::function<void(const std::string& reason)>;
  // Of an operation on a device. A queued one waits for work of this rank, not for other ranks.
  enum class Progress { kQueued, kRunning, kComplete };

  // Without `on_timeout` nothing is said. `remedy` ends what is said, after "look in the other
  // ranks' logs for one that is stuck or gone".
  Watchdog(std::chrono::milliseconds timeout, OnTimeout on_timeout, std::string remedy = "");
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // An operation is under way as long as this exists.
  class Watched {
   public:
    Watched(Watchdog& watchdog, Operations::iterator operation)
        : watchdog_(watchdog), operation_(operation) {}
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    Watchdog& watchdog_;
    Operations::iterator operation_;
  };

  // `operation` is as in "all_gather of unit 3 on rank 1 of 4".
  [[nodiscard]] Watched watch(std::string operation);
  // `progress` is asked on the watchdog's thread until the operation is complete. It must not wait.
  void watch_device(std::string operation, std::function<Progress()> progress);

 private:
  struct Operation {
    std::string name;
    std::function<Progress()> progress;  // empty: running until it is taken from the list
    int polls = 0;                       // that saw it running
  };

  void run();
  // Asks after every operation; returns the reason when one has timed out.
  std::string poll();

  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds poll_interval_;
  const OnTimeout on_timeout_;
  const std::string remedy_;

  std::mutex mutex_;
  std::condition_variable wake_;
  Operations under_way_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fsdp
