// Adds up the time of a rank's operations. Time that several of them share counts once.
#include "trainer/comm/communication_clock.h"

#include <algorithm>

namespace fsdp {
namespace {

using Time = std::chrono::steady_clock::time_point;

class HostInterval : public CommunicationClock::Interval {
 public:
  HostInterval(Time begin, Time end) : begin_(begin), end_(end) {}

  CommunicationClock::Span after(const Interval& origin) const override {
    const Time start = dynamic_cast<const HostInterval&>(origin).begin_;
    return {.begin_ms = milliseconds(begin_ - start), .end_ms = milliseconds(end_ - start)};
  }

 private:
  static double milliseconds(Time::duration duration) {
    return std::chrono::duration<double, std::milli>(duration).count();
  }

  Time begin_;
  Time end_;
};

}  // namespace

double CommunicationClock::Operations::milliseconds() const {
  std::vector<Span> spans;
  for (const auto& [label, interval] : operations_) {
    spans.push_back(interval->after(*operations_.front().second));
  }
  std::ranges::sort(spans, {}, &Span::begin_ms);
  double sum_ms = 0;
  double covered_until_ms = spans.empty() ? 0 : spans.front().begin_ms;
  for (const Span& span : spans) {
    sum_ms += std::max(0.0, span.end_ms - std::max(span.begin_ms, covered_until_ms));
    covered_until_ms = std::max(covered_until_ms, span.end_ms);
  }
  return sum_ms;
}

std::vector<CommunicationClock::LabelledSpan> CommunicationClock::Operations::after(
    const Interval& origin) const {
  std::vector<LabelledSpan> spans;
  for (const auto& [label, interval] : operations_) {
    spans.push_back({label, interval->after(origin)});
  }
  return spans;
}

std::shared_ptr<const CommunicationClock::Interval> CommunicationClock::now() {
  const Time now = std::chrono::steady_clock::now();
  return std::make_shared<HostInterval>(now, now);
}

void CommunicationClock::start() {
  const std::lock_guard lock(mutex_);
  counting_ = true;
}

CommunicationClock::Operations CommunicationClock::stop() {
  const std::lock_guard lock(mutex_);
  counting_ = false;
  return std::exchange(operations_, {});
}

void CommunicationClock::add(const Label& label, Time begin, Time end) {
  add(label, std::make_shared<HostInterval>(begin, end));
}

void CommunicationClock::add(const Label& label, std::shared_ptr<const Interval> interval) {
  const std::lock_guard lock(mutex_);
  if (counting_) operations_.operations_.emplace_back(label, std::move(interval));
}

}  // namespace fsdp
