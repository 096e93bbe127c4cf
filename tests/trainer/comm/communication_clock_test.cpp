#include "trainer/comm/communication_clock.h"

#include <catch2/catch.hpp>
#include <thread>

namespace fsdp::communication_clock_test {

using Clock = std::chrono::steady_clock;

Clock::time_point at_ms(int milliseconds) {
  return Clock::time_point() + std::chrono::milliseconds(milliseconds);
}

void add(CommunicationClock& clock, int begin_ms, int end_ms) {
  clock.add({}, at_ms(begin_ms), at_ms(end_ms));
}

class DeviceInterval : public CommunicationClock::Interval {
 public:
  DeviceInterval(double begin_ms, double end_ms, int& times_asked)
      : begin_ms_(begin_ms), end_ms_(end_ms), times_asked_(times_asked) {}
  CommunicationClock::Span after(const Interval& origin) const override {
    ++times_asked_;
    const double start_ms = dynamic_cast<const DeviceInterval&>(origin).begin_ms_;
    return {.begin_ms = begin_ms_ - start_ms, .end_ms = end_ms_ - start_ms};
  }

 private:
  double begin_ms_;
  double end_ms_;
  int& times_asked_;
};

TEST_CASE("operations between start and stop count") {
  CommunicationClock clock;
  add(clock, 0, 1);
  clock.start();
  CHECK(clock.stop().milliseconds() == 0);
  clock.start();
  add(clock, 10, 12);
  add(clock, 20, 24);
  const auto operations = clock.stop();
  add(clock, 30, 38);
  CHECK(operations.milliseconds() == 6);
  clock.start();
  add(clock, 40, 56);
  CHECK(clock.stop().milliseconds() == 16);
}

TEST_CASE("time that operations share counts once") {
  CommunicationClock clock;
  const auto time_of = [&](const std::vector<std::pair<int, int>>& spans) {
    clock.start();
    for (const auto& [begin_ms, end_ms] : spans) add(clock, begin_ms, end_ms);
    return clock.stop().milliseconds();
  };
  CHECK(time_of({{0, 10}, {2, 15}}) == 15);  // the second is queued behind the first
  CHECK(time_of({{0, 10}, {2, 5}}) == 10);   // the second, of another group, is within the first
  CHECK(time_of({{5, 10}, {0, 6}, {20, 21}}) == 11);          // in any order
  CHECK(time_of({{0, 10}, {2, 4}, {3, 8}, {10, 12}}) == 12);  // one begins at another's end
}

TEST_CASE("a device is asked for an operation's time when the sum is read, and lets go with it") {
  CommunicationClock clock;
  int times_asked = 0;
  const auto first = std::make_shared<DeviceInterval>(100, 102, times_asked);
  const auto second = std::make_shared<DeviceInterval>(101, 105, times_asked);
  clock.add({}, first);
  clock.start();
  clock.add({}, first);
  clock.add({}, second);
  {
    const auto operations = clock.stop();
    CHECK(first.use_count() == 2);
    CHECK(times_asked == 0);
    CHECK(operations.milliseconds() == 5);
  }
  CHECK(first.use_count() == 1);
}

TEST_CASE("groups add from their threads") {
  constexpr int kOperations = 1000;
  CommunicationClock clock;
  clock.start();
  const auto work = [&](int place) {
    for (int i = 0; i < kOperations; ++i) add(clock, 10 * i + place, 10 * i + place + 1);
  };
  std::thread other(work, 0);
  work(5);
  other.join();
  CHECK(clock.stop().milliseconds() == 2 * kOperations);
}

}  // namespace fsdp::communication_clock_test
