#pragma once

#include <optional>
#include <string>
#include <vector>

#include "contract/record/event.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/checkpoint/trainer_state.h"
#include "trainer/step/training_step.h"

namespace fsdp {

// Writes a run's checkpoints and reads the state of its optimizer and gradient scaler from one.
class Checkpoints {
 public:
  // All arguments outlive the object.
  Checkpoints(const RunSpec& spec, const RunPaths& paths, TrainingStep& training, const Mesh& mesh,
              ProcessGroup& world, const Backend& backend);

  // True if a checkpoint is due after `step` of `steps`, apart from improvements and stops.
  bool is_due(int64_t step, int64_t steps) const;

  // Begins a checkpoint. Every rank calls it between two steps, if no checkpoint is under way. The
  // caller sets the step, the losses and the data of `state`. Returns when the tensors may change.
  // A thread brings the files to the disk.
  void save(TrainerState state);

  // Advances the checkpoint that is under way. With `waits`, waits until this rank's part is done.
  // On rank 0, returns a checkpoint once, when it has become complete.
  std::optional<CheckpointDone> advance(bool waits);

  void load(const CheckpointReader& reader);

 private:
  void write_full_weights(CheckpointWriter& checkpoint);

  const RunSpec& spec_;
  RunPaths paths_;
  TrainingStep& training_;
  ShardStore& store_;
  Optimizer& optimizer_;
  const Mesh& mesh_;
  ProcessGroup& world_;
  const Backend& backend_;
  std::shared_ptr<WriterThread::HostBuffers> buffers_ =
      std::make_shared<WriterThread::HostBuffers>();
  std::optional<CheckpointWriter> writer_;  // of the checkpoint that is under way
};

}  // namespace fsdp
