#pragma once

#include "trainer/backend/streams.h"

namespace fsdp {

// The engine's interface to a strategy: when a unit's parameters are whole, and where its gradient
// goes. Units are identified by their index. The implementation is in trainer/strategy/.
//
// To add a strategy, such as hybrid_shard: add its name to Sharding or StrategyKind
// (contract/spec/training_spec.h), and its mesh of ranks to trainer/strategy/make_strategy.cpp. If
// no mesh expresses it, implement this class beside trainer/strategy/data_parallel.h. Tests:
// tests/trainer/step/schedule_test.cpp (order), tests/parity/test_sharding.py (losses),
// tests/parity/test_memory.py. trainer/calibrate/collective_times.cpp times its groups of ranks.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // True if the engine releases a unit between its forward and its backward.
  virtual bool reshard_after_forward() const = 0;

  // Begins a micro-batch. After the last one's backward, the gradients cover the whole step.
  virtual void begin_micro_batch(bool is_last) = 0;

  // Starts to make the unit whole. Does nothing if the unit is whole or already being gathered.
  virtual void gather(int unit) = 0;
  // Makes compute wait until the unit is whole. After it, compute may read Parameter::value.
  virtual void wait_whole(int unit) = 0;
  // Says that compute has issued its last use of the unit's values before the next gather.
  virtual void release(int unit) = 0;
  // Returns the buffer from which compute reads a whole unit.
  virtual Buffer whole_buffer(int unit) const = 0;

  // Sets Parameter::gradient of the unit's parameters. Does nothing if it is set.
  virtual void attach_gradient(int unit) = 0;
  // Says that the unit's gradient of this micro-batch is complete.
  virtual void reduce(int unit) = 0;
  // True if reduce() takes this micro-batch's gradient. False: the next micro-batch adds to it.
  virtual bool reduces_micro_batch() const = 0;
  // Ends the micro-batch's backward: waits for all reductions that are under way.
  virtual void finish_backward() = 0;
};

}  // namespace fsdp
