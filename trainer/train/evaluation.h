#pragma once

#include "contract/record/event.h"
#include "contract/spec/run_spec.h"
#include "trainer/comm/process_group.h"
#include "trainer/data/data_set.h"
#include "trainer/step/training_step.h"

namespace fsdp {

// Computes loss and token accuracy on a validation set over all ranks. A rank's weight is its
// number of labels.
class Evaluation {
 public:
  // `set` may be null if the run has no evaluations.
  Evaluation(const RunSpec& spec, DataSet* set, ProcessGroup& world, at::Device device);

  // True if an evaluation follows step `step`, counted from 1.
  bool is_due(int64_t step, int64_t steps_per_epoch) const;

  // Every rank calls it. A batch is the next world size * size_per_rank rows. Each rank takes a
  // contiguous share.
  EvaluationDone run(TrainingStep& training, int64_t step);

 private:
  Batch load_batch(int64_t batch, int64_t& label_count);

  EvaluationSpec spec_;
  int64_t size_per_rank_;
  DataSet* set_;
  ProcessGroup& world_;
  at::Device device_;
};

}  // namespace fsdp
