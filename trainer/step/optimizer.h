#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/spec/run_spec.h"
#include "trainer/step/quantized_state.h"
#include "trainer/step/stochastic_rounding.h"
#include "trainer/strategy/shard_store.h"

namespace fsdp {

// Elements of one parameter in a flat tensor.
struct FlatPart {
  std::string parameter;
  ParameterRole role = ParameterRole::kWeight;
  int64_t begin = 0;          // in the flat tensor
  int64_t first_element = 0;  // in the parameter
  int64_t parameter_numel = 0;

  bool operator==(const FlatPart&) const = default;
};

// A unit as the optimizer sees it.
struct FlatUnit {
  at::Tensor parameters;        // [numel]
  std::vector<FlatPart> parts;  // in order, each up to the next one; zeros before the first
  int64_t small_numel = 0;      // elements of parameters smaller than kLeastQuantized, on all ranks
};

// Returns this rank's part of every unit, where the optimizer works.
std::vector<FlatUnit> flat_units(ShardStore& store);

// The result of examining all gradients of a step. Both tensors are undefined, or 0-dimensional
// fp32 on the parameters' device.
struct GradientVerdict {
  at::Tensor divisor{};           // of every gradient; undefined: 1
  at::Tensor found_non_finite{};  // not 0: the step is skipped
};

// Steps flat parameters, unit by unit, as torch.optim's AdamW, Adam, SGD and Adadelta do.
//
// The state is on the parameters' device and is allocated by the constructor. Its dtype is
// optimizer.state_dtype, by default the parameters'. If the two dtypes differ, a step computes in
// the wider one and rounds to nearest when it writes back. With `optimizer.rounding: stochastic`,
// it computes in fp32 and rounds to bfloat16 at random. The randomness depends only on the seed,
// the step and the element's place in its parameter. Such steps work block by block; on a GPU, Adam
// and AdamW use one kernel. With state_dtype int8, the moments of parameters of kLeastQuantized
// elements or more are quantized. Their flat tensors consist of whole blocks of kStateBlock. The
// state of smaller parameters is fp32. Units may be stepped from different threads, but only one
// unit at a time.
class Optimizer {
 public:
  // Keeps only sizes, dtypes and devices of the units' parameters. `device` is their device, or the
  // planned one if they are on meta.
  Optimizer(const OptimizerSpec& spec, const std::vector<FlatUnit>& units, int64_t seed,
            c10::DeviceType device);

  // Applies step `number` of the run to unit `unit`, in place, on the current stream. `gradient`
  // has the parameters' size, dtype and device; a step with a divisor may overwrite it. A skipped
  // step leaves parameters, state and the number of steps unchanged. The device decides this, and
  // nothing waits for it.
  void step(int unit, int64_t number, const at::Tensor& parameters, const at::Tensor& gradient,
            double learning_rate, const GradientVerdict& verdict = {});

  // Returns the tensors of a unit's state, which are flat. Names are as in PyTorch's optimizer
  // state, with "_codes" or "_absmax" if they are quantized. Empty for sgd without momentum.
  std::vector<std::pair<std::string, at::Tensor>> state(int unit) const;

  // Calls visit(name, parameter, offset, part) for the state of every parameter with elements on
  // rank `shard_index`. `part` begins at element `offset` of the named state.
  using VisitState = std::function<void(const std::string&, const Parameter&, int64_t offset,
                                        const at::Tensor& part)>;
  void for_each_state(int unit, const FlatLayout& layout, int64_t shard_index,
                      const VisitState& visit) const;

  // Returns the number of steps that were not skipped, for the bias correction. It is the same for
  // all units between optimizer steps. Waits for the device.
  double steps() const;
  void set_steps(double steps);

 private:
  // Consecutive elements of a unit that are stepped alike.
  struct Range {
    int64_t begin;
    int64_t size;
    int64_t state_begin;  // unless it is quantized
    bool is_quantized;
    double weight_decay;
    Draws draws;  // without the step
  };
  struct UnitState {
    bool is_trained;
    std::vector<at::Tensor> tensors;  // by name; of small parameters only, if others are quantized
    std::vector<QuantizedState> quantized;
    at::ScalarType dtype;  // the dtype of a step's computation
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
