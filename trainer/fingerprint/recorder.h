#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "contract/record/fingerprint.h"
#include "contract/spec/training_spec.h"
#include "trainer/backend/streams.h"
#include "trainer/engine/strategy.h"
#include "trainer/engine/units.h"
#include "trainer/model/model.h"

namespace fsdp {

// Records the fingerprints of chosen steps on one rank, at what the schedule announces. It changes
// nothing that a step computes. While no step is recorded, it only passes calls on.
class FingerprintRecorder {
 public:
  // Records the steps that `steps` names, as train.fingerprint_steps does. `begin` describes the
  // run, without a step.
  FingerprintRecorder(TextList steps, FingerprintsBegin begin);

  // Return a model or strategy that does the same and reports to this recorder. The recorder,
  // model, units and streams outlive it.
  Model watched(Model model);
  std::unique_ptr<Strategy> watched(std::unique_ptr<Strategy> strategy, const Model& model,
                                    std::span<const Unit> units, Streams& streams);

  // Begins a step. Its micro-batches live until the step's end.
  void begin_step(int64_t step, std::span<const Batch> micro_batches);
  bool is_recording() const { return is_recording_; }

  // Add fingerprints to the step. They may be called from any thread, on the stream that has
  // written the tensor.
  //
  // Adds a part of a parameter, or of its state, which begins at element `begin`.
  void add_part(Quantity of, const Parameter& parameter, int64_t begin, const at::Tensor& part,
                const std::string& state = "");
  // Adds the rows of an input or output of a module: [B * T, D].
  void add_activation(Quantity of, const std::string& module, const std::string& activation,
                      const Batch& batch, const at::Tensor& value_ND);
  // Adds a number; 0-dimensional.
  void add_number(Quantity of, const at::Tensor& number);
  // True if the batch is the first one of the step.
  bool is_first(const Batch& batch) const { return &batch == micro_batches_.data(); }

  // Ends the step, after all its work is done. Returns the text of its file.
  std::string end_step();

 private:
  // How many tokens of each row of a micro-batch count: in an encoder the row's input, else those
  // up to the last label. The others fill the row up.
  struct RowTokens {
    std::vector<int64_t> encoder, decoder;
  };
  void add_rows(Quantity of, const std::string& name, bool is_encoder, const Batch& batch,
                const at::Tensor& value_ND);
  void add(Fingerprint fingerprint, at::Tensor sums);

  TextList steps_;
  FingerprintsBegin begin_;
  bool is_recording_ = false;
  std::span<const Batch> micro_batches_;
  std::vector<RowTokens> tokens_;  // by micro-batch
  double scale_ = 1;               // of the step's gradients
  std::mutex mutex_;               // guards added_
  std::vector<std::pair<Fingerprint, at::Tensor>> added_;
};

}  // namespace fsdp
