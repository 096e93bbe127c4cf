#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace fsdp {

// Measures time between points of the compute stream without stopping it.
class StepClock {
 public:
  class Mark {
   public:
    virtual ~Mark() = default;
    // Returns the time from `earlier` to this mark; waits until the device has passed this one.
    virtual double milliseconds_since(const Mark& earlier) = 0;
  };

  explicit StepClock(c10::Device device) : device_(device) {}
  std::unique_ptr<Mark> mark() const;

 private:
  c10::Device device_;
};

}  // namespace fsdp
