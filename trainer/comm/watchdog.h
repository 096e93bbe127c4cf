#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace fsdp {

// Watches the operations between ranks that are under way, and reports one that takes too long.
//
// The waiting thread cannot report it: on a device it may be inside a driver's call. The
// transports' own timeouts name no unit or end the process. Suspensions of the whole process do not
// count.
class Watchdog {
  struct Operation;
  using Operations = std::list<Operation>;

 public:
  // Receives one line that names the operation. Called on the watchdog's thread, for the first of
  // the operations that time out together.
  using OnTimeout = std::function<void(const std::string& reason)>;
  // The progress of an operation on a device. A queued one waits for this rank's earlier work.
  enum class Progress { kQueued, kRunning, kComplete };

  // Without `on_timeout`, nothing is reported. `remedy` ends the report, after "look in the other
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

  // `operation` is a text such as "all_gather of unit 3 on rank 1 of 4".
  [[nodiscard]] Watched watch(std::string operation);
  // Asks `progress` on the watchdog's thread until the operation is complete. It must not wait.
  void watch_device(std::string operation, std::function<Progress()> progress);

 private:
  struct Operation {
    std::string name;
    std::function<Progress()> progress;  // empty: running until removed from the list
    int polls = 0;                       // the polls that saw it running
  };

  void run();
  // Checks every operation; returns the reason if one has timed out.
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
