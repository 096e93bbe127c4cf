#pragma once

#include "trainer/backend/streams.h"

namespace fsdp {

// What the engine asks of a strategy: when a unit's parameters are whole and where its gradient
// goes. Units are named by their index. The implementation is in trainer/strategy/.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Whether the engine lets a unit go between its forward and its backward.
  virtual bool reshard_after_forward() const = 0;

  // A new micro-batch; after the last one's backward the gradients are those of the whole step.
  virtual void begin_micro_batch(bool is_last) = 0;

  // Starts to make the unit whole; nothing when it is, or is on its way.
  virtual void gather(int unit) = 0;
  // From here on compute may read the unit's Parameter::value.
  virtual void wait_whole(int unit) = 0;
  // Compute has issued its last use of the values until the next gather.
  virtual void release(int unit) = 0;
  // The buffer that compute reads a whole unit from.
  virtual Buffer whole_buffer(int unit) const = 0;

  // Gives the unit's parameters their Parameter::gradient; nothing when they have it.
  virtual void attach_gradient(int unit) = 0;
  // The unit's gradient of this micro-batch is complete.
  virtual void reduce(int unit) = 0;
  // The micro-batch's backward is over: waits for what is on its way.
  virtual void finish_backward() = 0;
};

}  // namespace fsdp
