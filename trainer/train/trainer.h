#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "trainer/comm/process_group.h"
#include "trainer/contract/event.h"
#include "trainer/contract/run_spec.h"
#include "trainer/data/batches.h"
#include "trainer/engine/engine.h"
#include "trainer/strategy/make_strategy.h"
#include "trainer/train/adamw.h"
#include "trainer/train/memory_probe.h"
#include "trainer/train/step_clock.h"

namespace fsdp {

// One rank of one run: builds the parts that a specification names and does the steps.
class Trainer {
 public:
  // Reads the inputs and this rank's part of the weights. Throws ConfigError when they do not fit.
  // `group` and `events` outlive the trainer.
  Trainer(const RunSpec& spec, at::Device device, ProcessGroup& group, EventWriter& events);

  int64_t steps_planned() const { return steps_planned_; }
  int64_t parameter_count() const { return model_.parameter_count(); }

  // Trains to the end or until any rank was asked to stop (see stop_signal.h), reporting each step.
  // Returns the number of steps done.
  int64_t run();

 private:
  // A step whose figures may still be on their way from the device.
  struct Report {
    StepDone event;
    at::Tensor statistics;  // host: loss, ranks that were asked to stop, gradient norm
    std::unique_ptr<StepClock::Mark> end;
  };
  Report do_step(int64_t step);
  // Writes the oldest report; false when a rank was asked to stop in that step.
  bool write_report();

  RunSpec spec_;
  at::Device device_;
  ProcessGroup& group_;
  EventWriter& events_;
  std::unique_ptr<DataSet> data_;
  Sampler sampler_;
  int64_t steps_planned_;
  Model model_;
  std::unique_ptr<Streams> streams_;
  ShardStore store_;
  std::unique_ptr<Strategy> strategy_;
  Engine engine_;
  AdamW optimizer_;
  std::unique_ptr<MemoryProbe> memory_;
  StepClock clock_;
  std::unique_ptr<StepClock::Mark> last_mark_;
  std::deque<Report> reports_;
};

}  // namespace fsdp
