#include "trainer/comm/communication_clock.h"

namespace fsdp {

double CommunicationClock::Sum::milliseconds() const {
  double sum_ms = known_ms_;
  for (const auto& interval : intervals_) sum_ms += interval->milliseconds();
  return sum_ms;
}

void CommunicationClock::start() {
  const std::lock_guard lock(mutex_);
  counting_ = true;
}

CommunicationClock::Sum CommunicationClock::stop() {
  const std::lock_guard lock(mutex_);
  counting_ = false;
  return std::exchange(sum_, {});
}

void CommunicationClock::add(double milliseconds) {
  const std::lock_guard lock(mutex_);
  if (counting_) sum_.known_ms_ += milliseconds;
}

void CommunicationClock::add(std::shared_ptr<const Interval> interval) {
  const std::lock_guard lock(mutex_);
  if (counting_) sum_.intervals_.push_back(std::move(interval));
}

}  // namespace fsdp
