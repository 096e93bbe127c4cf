// Times steps by the host's clock, or by events of a GPU's stream. Making a mark does not wait.
#include "trainer/backend/step_clock.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>

namespace fsdp {
namespace {

class HostMark : public StepClock::Mark {
 public:
  double milliseconds_since(const Mark& earlier) override {
    const auto elapsed = time_ - static_cast<const HostMark&>(earlier).time_;
    return std::chrono::duration<double, std::milli>(elapsed).count();
  }

 private:
  std::chrono::steady_clock::time_point time_ = std::chrono::steady_clock::now();
};

class DeviceMark : public StepClock::Mark {
 public:
  explicit DeviceMark(c10::Device device) : event_(device.type(), c10::EventFlag::BACKEND_DEFAULT) {
    event_.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  }
  double milliseconds_since(const Mark& earlier) override {
    event_.synchronize();
    return static_cast<const DeviceMark&>(earlier).event_.elapsedTime(event_);
  }

 private:
  c10::Event event_;
};

}  // namespace

std::unique_ptr<StepClock::Mark> StepClock::mark() const {
  if (device_.is_cpu()) return std::make_unique<HostMark>();
  return std::make_unique<DeviceMark>(device_);
}

}  // namespace fsdp
