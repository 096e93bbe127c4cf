#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "contract/spec/run_spec.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/process_group.h"
#include "trainer/engine/engine.h"
#include "trainer/fingerprint/recorder.h"
#include "trainer/step/gradient_scaler.h"
#include "trainer/step/optimizer.h"
#include "trainer/strategy/make_strategy.h"

namespace fsdp {

// Computes a run's steps: forward, backward, clipping and optimizer of one specification. It runs
// on one rank of any backend, with micro-batches from anywhere. It uses no files, events or clock.
class TrainingStep {
 public:
  // `spec` is resolved, and `config` is its model. `fill` gives this rank's part of the weights; it
  // is not called on meta. Backend, mesh, world and `recorder` outlive the step. If `recorder` is
  // null, nothing is recorded.
  TrainingStep(const RunSpec& spec, const ModelConfig& config, Backend& backend, const Mesh& mesh,
               ProcessGroup& world, const FillParameter& fill,
               FingerprintRecorder* recorder = nullptr);
  // Waits for the work of a step that an exception has ended.
  ~TrainingStep();
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // Tensors are 0-dimensional fp32 on the device, equal on every rank, and not yet waited for.
  struct Result {
    at::Tensor loss;
    at::Tensor votes;
    at::Tensor gradient_norm;  // before clipping; undefined if not measured
    at::Tensor is_left_out;    // not 0: the step was skipped; undefined: no step is skipped
    double gradient_scale = 1.0;
  };
  // Does optimizer step `step` of the run, counted from 1. `vote` is this rank's; votes are summed
  // over all ranks without an extra collective. Calls `at_forward_end` after the last forward.
  Result run(int64_t step, std::span<Batch> micro_batches, double learning_rate, double vote,
             const std::function<void()>& at_forward_end);

  // See Engine::evaluate.
  at::Tensor evaluate(const Batch& batch) { return engine_.evaluate(batch); }

  const ModelConfig& config() const { return config_; }
  const Model& model() const { return model_; }
  ShardStore& store() { return store_; }
  Optimizer& optimizer() { return *optimizer_; }
  // Returns the scaler of fp16_mixed; nullopt in other precisions.
  std::optional<GradientScaler>& scaler() { return scaler_; }

 private:
  // The results about a step's gradients, shared by the optimizer's thread and the calling thread.
  struct Gradients {
    std::vector<std::vector<at::Tensor>> norms;  // of parts, by unit; with offload
    GradientVerdict verdict;
  };

  StepUnit step_unit(int64_t step, double learning_rate);
  // True if the step's fingerprints are recorded.
  bool is_recorded() const { return recorder_ != nullptr && recorder_->is_recording(); }
  // Returns a function that calls `step` and records its inputs and outputs, if they are recorded.
  StepUnit recorded(StepUnit step);
  // Returns the function that measures a unit's norms; empty if no norm is needed.
  SeeGradient see_gradient();
  bool needs_norm() const;
  void record(Quantity of, const at::Tensor& number);
  // Returns the norm of the gradients without the loss's scale; undefined if nothing needs it.
  at::Tensor measure_norm(Result& result);
  // Decides the divisor of gradients and whether the optimizer steps. Fills in `result`.
  void check_gradients(Result& result);

  RunSpec spec_;
  ModelConfig config_;
  Backend& backend_;
  const Mesh& mesh_;
  ProcessGroup& world_;
  FingerprintRecorder* recorder_;
  Model model_;
  std::vector<Unit> units_;
  ShardStore store_;
  std::unique_ptr<Strategy> strategy_;
  Engine engine_;
  std::shared_ptr<Optimizer> optimizer_;  // steps on the optimizer's thread share it
  std::optional<GradientScaler> scaler_;
  std::shared_ptr<Gradients> gradients_;  // the optimizer's thread may hold the last step's
};

}  // namespace fsdp
