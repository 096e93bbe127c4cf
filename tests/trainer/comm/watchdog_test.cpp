#include "trainer/comm/watchdog.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <future>

namespace fsdp::watchdog_test {

using Catch::Matchers::StartsWith;

constexpr std::chrono::milliseconds kShort{20};

// The first reason that a watchdog gives.
class FirstReason {
 public:
  Watchdog::OnTimeout on_timeout() {
    return [this](const std::string& reason) {
      if (!given_.exchange(true)) promise_.set_value(reason);
    };
  }
  std::string wait() { return promise_.get_future().get(); }

 private:
  std::promise<std::string> promise_;
  std::atomic<bool> given_ = false;
};

TEST_CASE("an operation that takes too long is named, with what to do") {
  FirstReason reason;
  Watchdog watchdog(kShort, reason.on_timeout(), ", or be patient");
  const auto watched = watchdog.watch("all_gather of unit 3 on rank 1 of 4");
  CHECK(reason.wait() ==
        "all_gather of unit 3 on rank 1 of 4 took longer than 0.02 s; look in the other ranks' "
        "logs for one that is stuck or gone, or be patient");
}

TEST_CASE("an operation that has ended is forgotten") {
  for (std::chrono::milliseconds timeout = kShort;; timeout *= 2) {
    FirstReason reason;
    Watchdog watchdog(timeout, reason.on_timeout());
    const auto begin = std::chrono::steady_clock::now();
    { const auto watched = watchdog.watch("ended"); }
    if (std::chrono::steady_clock::now() - begin > timeout / 2) continue;  // it took too long
    const auto watched = watchdog.watch("under way");
    CHECK_THAT(reason.wait(), StartsWith("under way took"));
    return;
  }
}

TEST_CASE("the time of an operation on a device counts from where its stream reaches it") {
  FirstReason reason;
  std::atomic<int> asked_after_complete = 0;
  using Progress = Watchdog::Progress;
  Watchdog watchdog(kShort, reason.on_timeout());
  watchdog.watch_device("queued", [] { return Progress::kQueued; });
  watchdog.watch_device("complete", [&] {
    ++asked_after_complete;
    return Progress::kComplete;
  });
  watchdog.watch_device("running", [] { return Progress::kRunning; });
  CHECK_THAT(reason.wait(), StartsWith("running took"));
  CHECK(asked_after_complete == 1);
}

}  // namespace fsdp::watchdog_test
