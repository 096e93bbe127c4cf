#include "trainer/comm/communication_clock.h"

#include <catch2/catch.hpp>
#include <thread>

using namespace fsdp;

namespace {

class FixedInterval : public CommunicationClock::Interval {
 public:
  FixedInterval(double duration_ms, int& times_asked)
      : duration_ms_(duration_ms), times_asked_(times_asked) {}
  double milliseconds() const override {
    ++times_asked_;
    return duration_ms_;
  }

 private:
  double duration_ms_;
  int& times_asked_;
};

}  // namespace

TEST_CASE("operations between start and stop count, each in full") {
  CommunicationClock clock;
  clock.add(1);
  clock.start();
  CHECK(clock.stop().milliseconds() == 0);
  clock.start();
  clock.add(2);
  clock.add(4);
  const auto sum = clock.stop();
  clock.add(8);
  CHECK(sum.milliseconds() == 6);
  clock.start();
  clock.add(16);
  CHECK(clock.stop().milliseconds() == 16);
}

TEST_CASE("a device is asked for an operation's time when the sum is read, and lets go with it") {
  CommunicationClock clock;
  int times_asked = 0;
  const auto interval = std::make_shared<FixedInterval>(2, times_asked);
  clock.add(interval);
  clock.start();
  clock.add(interval);
  clock.add(interval);
  clock.add(1);
  {
    const auto sum = clock.stop();
    CHECK(interval.use_count() == 3);
    CHECK(times_asked == 0);
    CHECK(sum.milliseconds() == 5);
  }
  CHECK(interval.use_count() == 1);
}

TEST_CASE("groups add from their threads") {
  constexpr int kOperations = 1000;
  CommunicationClock clock;
  clock.start();
  const auto work = [&] {
    for (int i = 0; i < kOperations; ++i) clock.add(1);
  };
  std::thread other(work);
  work();
  other.join();
  CHECK(clock.stop().milliseconds() == 2 * kOperations);
}
