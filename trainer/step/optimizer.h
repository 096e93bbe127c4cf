#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/spec/run_spec.h"
#include "trainer/step/stochastic_rounding.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Elements of one parameter in a flat tensor.
struct FlatPart {
  std::string parameter;
  ParameterRole role = ParameterRole::kWeight;
  int64_t begin = 0;          // in the flat tensor
  int64_t first_element = 0;  // of the parameter

  bool operator==(const FlatPart&) const = default;
};

// A unit as the optimizer sees it.
struct FlatUnit {
  at::Tensor parameters;        // [numel]
  std::vector<FlatPart> parts;  // in order, each up to the next one's begin; zeros before the first
};

// This rank's part of every unit, where the optimizer works.
std::vector<FlatUnit> flat_units(ShardStore& store);

// What all gradients of a step together say of it. Both are undefined, or 0-dimensional fp32 on the
// parameters' device.
struct GradientVerdict {
  at::Tensor divisor{};           // of every gradient; undefined: 1
  at::Tensor found_non_finite{};  // not 0: the step is left out
};

// Steps flat parameters, unit by unit, as torch.optim's AdamW, Adam, SGD and Adadelta do.
//
// State lives beside the parameters, in optimizer.state_dtype or else in their dtype, and is
// allocated from the start. Where the two dtypes differ, a step computes in the wider one and
// rounds what it writes back: to nearest, or, with optimizer.rounding stochastic, at random from
// the seed, the step and the element's place in its parameter alone; then it computes in fp32 also
// where both dtypes are bfloat16. It does so block by block, on a GPU for Adam and AdamW in one
// kernel. Different units may be stepped from different threads, one at a time.
class Optimizer {
 public:
  // Of the units' parameters only sizes, dtypes and devices are kept. `device`: where they are, or
  // on meta would be.
  Optimizer(const OptimizerSpec& spec, const std::vector<FlatUnit>& units, int64_t seed,
            c10::DeviceType device);

  // Step `number` of the run on unit `unit`, in place, on the current stream. `gradient`: as the
  // parameters in size, dtype and device; a step with a divisor may overwrite it. Where a step is
  // left out, parameters, state and the number of steps stay as they are, which is decided on the
  // device without waiting for it.
  void step(int unit, int64_t number, const at::Tensor& parameters, const at::Tensor& gradient,
            double learning_rate, const GradientVerdict& verdict = {});

  // What a checkpoint keeps of a unit: names as in PyTorch's optimizer state, and flat tensors of
  // the unit's size, which loading writes into. Empty for sgd without momentum.
  std::vector<std::pair<std::string, at::Tensor>> state(int unit) const;

  // Steps done without those left out, for the bias correction; the same for all units between
  // optimizer steps. Waits for the device.
  double steps() const;
  void set_steps(double steps);

 private:
  // Consecutive elements of a unit that are stepped alike.
  struct Range {
    int64_t begin;
    int64_t size;
    double weight_decay;
    Draws draws;  // but for the step
  };
  struct UnitState {
    std::vector<at::Tensor> tensors;
    at::ScalarType dtype;  // that a step computes in
    bool is_rounded_at_random;
    bool is_in_one_kernel;
    bool is_blockwise;
    std::vector<Range> ranges;
    at::Tensor steps;  // 0-dimensional, fp32
  };

  UnitState make_state(const FlatUnit& unit) const;
  std::vector<Range> ranges_of(const FlatUnit& unit, bool is_rounded_at_random) const;

  OptimizerSpec spec_;
  int64_t seed_;
  c10::DeviceType device_;
  std::vector<std::string> state_names_;
  std::vector<UnitState> units_;
};

}  // namespace fsdp
