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
#include "trainer/step/gradient_scaler.h"
#include "trainer/step/optimizer.h"
#include "trainer/strategy/make_strategy.h"

namespace fsdp {

// What a run computes: forward, backward, clipping and optimizer of one specification, on one rank
// of any backend, for micro-batches from anywhere. No files, no events, no clock.
class TrainingStep {
 public:
  // `spec` is resolved; `config` is its model's. `fill` gives this rank's part of the weights; it
  // is not called on meta. Backend, mesh and world outlive the step.
  TrainingStep(const RunSpec& spec, const ModelConfig& config, Backend& backend, const Mesh& mesh,
               ProcessGroup& world, const FillParameter& fill);
  // Waits for the work of a step that an exception has ended.
  ~TrainingStep();
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  // 0-dimensional fp32 tensors on the device, the same on every rank, of which nothing has waited.
  struct Result {
    at::Tensor loss;
    at::Tensor votes;
    at::Tensor gradient_norm;  // before clipping; undefined where it is not measured
    at::Tensor is_left_out;    // not 0: parameters and state are as before; undefined: never
    double gradient_scale = 1.0;
  };
  // Optimizer step number `step` of the run, from 1. `vote`: of this rank, summed over all, without
  // a collective of its own. Calls `at_forward_end` after the last micro-batch's forward.
  Result run(int64_t step, std::span<Batch> micro_batches, double learning_rate, double vote,
             const std::function<void()>& at_forward_end);

  // See Engine::evaluate.
  at::Tensor evaluate(const Batch& batch) { return engine_.evaluate(batch); }

  const Model& model() const { return model_; }
  ShardStore& store() { return store_; }
  Optimizer& optimizer() { return *optimizer_; }
  // Of fp16_mixed.
  std::optional<GradientScaler>& scaler() { return scaler_; }

 private:
  // What the optimizer's thread and this one know of the step's gradients.
  struct Gradients {
    std::vector<std::vector<at::Tensor>> norms;  // of parts, by unit; with offload
    GradientVerdict verdict;
  };

  StepUnit step_unit(int64_t step, double learning_rate);
  // Measures a unit's norms.
  SeeGradient see_gradient();
  bool needs_norm() const;
  // Returns the norm of the gradients without the loss's scale; undefined if nothing needs it.
  at::Tensor measure_norm(Result& result);
  // Decides what the optimizer divides gradients by and whether it steps. Fills in `result`.
  void check_gradients(Result& result);

  RunSpec spec_;
  Backend& backend_;
  const Mesh& mesh_;
  ProcessGroup& world_;
  Model model_;
  std::vector<Unit> units_;
  ShardStore store_;
  std::unique_ptr<Strategy> strategy_;
  Engine engine_;
  std::shared_ptr<Optimizer> optimizer_;  // also of steps that the optimizer's thread still does
  std::optional<GradientScaler> scaler_;
  std::shared_ptr<Gradients> gradients_;  // the optimizer's thread may have older ones
};

}  // namespace fsdp
