#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/engine/units.h"
#include "trainer/strategy/flat_layout.h"

namespace fsdp {

// Fills `out`, on the host, with a parameter's flattened initial value from element `offset` on.
using FillParameter =
    std::function<void(const Parameter& parameter, int64_t offset, const at::Tensor& out)>;

// Steps a unit's parameters in place, where they live. `gradient` has their dtype and device and
// may be overwritten.
using StepUnit =
    std::function<void(int unit, const at::Tensor& parameters, const at::Tensor& gradient)>;

// Looks at a unit's complete gradient.
using SeeGradient = std::function<void(int unit, const at::Tensor& gradient)>;

// Owns this rank's part of every unit's parameters, and the step's gradient for it. The strategy
// reads the parts and puts gradients in; the optimizer steps the parts.
//
// Frozen parameters lie beside those that are trained, in their own dtype, or quantized. They have
// no gradient. They are on the device of parameters(). If all parameters of a unit are frozen,
// layout() is empty.
//
// With offload (after ZeRO-Offload, Ren et al. 2021), a gradient is copied to CPU memory as soon as
// it is put in. There the optimizer steps the parameters on its own thread. With `offload:
// optimizer`, the device keeps a copy of the parameters, and each step updates the copy. With
// `offload: parameters`, each gather copies the parameters to the device. A CPU device makes the
// same copies. Units that finish_step() steps are stepped during the next forward. It waits for
// each unit when it needs the unit.
//
// The streams are drained before the store is destroyed.
class ShardStore {
 public:
  // A gradient [shard_numel], in memory of a stream's pool.
  struct Gradient {
    at::Tensor shard;
    Buffer buffer{};
    StreamId pool = StreamId::kCompute;
    EventPtr ready;  // the gradient is complete
  };
  // This rank's part of the frozen parameters of one dtype, or of the quantized ones (uint8).
  struct Frozen {
    FlatLayout layout;
    at::Tensor values;  // [shard_numel]
  };
  struct Options {
    at::ScalarType dtype = at::kFloat;         // of the trained parameters
    at::ScalarType frozen_dtype = at::kFloat;  // of frozen parameters, unless quantized
    int64_t item_bytes = 4;                    // of the narrowest dtype of a unit's buffers
    int64_t block = 1;                         // trained elements in a block, which is on one rank
    int64_t shard_count = 1;                   // 1: every rank owns everything
    int64_t shard_index = 0;
    Offload offload = Offload::kNone;
    // Steps a unit as soon as its gradient has arrived, instead of all units in finish_step().
    bool step_on_arrival = false;
  };
  ShardStore(const Model& model, std::span<const Unit> units, const Options& options,
             Backend& backend, const FillParameter& fill);
  ShardStore(const ShardStore&) = delete;
  ShardStore& operator=(const ShardStore&) = delete;

  int unit_count() const { return static_cast<int>(units_.size()); }
  const FlatLayout& layout(int unit) const { return units_[unit].layout; }
  bool is_trained(int unit) const { return layout(unit).numel() > 0; }
  const Options& options() const { return options_; }
  // Returns the dtype and device of the parameters on the device.
  at::TensorOptions tensor_options() const {
    return at::TensorOptions(options_.dtype).device(backend_.device());
  }
  bool is_sharded() const { return options_.shard_count > 1; }
  bool is_offloaded() const { return options_.offload != Offload::kNone; }

  // Returns the tensor that a gather reads: [shard_numel], on the device, or with `offload:
  // parameters` on the host.
  const at::Tensor& parameters(int unit) const;
  Buffer parameters_buffer(int unit) const;
  // Returns this rank's part of the unit's frozen parameters; empty if there are none.
  const std::vector<Frozen>& frozen(int unit) const { return units_[unit].frozen; }
  // Orders `stream` after the optimizer's last write of parameters(unit). If the optimizer's thread
  // may still be stepping the unit, the calling thread waits for it.
  void wait_parameters(int unit, StreamId stream);

  // Copies `own`, a unit's parameters() or frozen values, to `to`, a device tensor of any dtype, on
  // the current stream.
  void copy_to_device(at::Tensor own, const at::Tensor& to) const;

  // Returns the parameters [shard_numel] by unit, where the optimizer works: on the host with
  // offload. It cannot be called during a step. Waits as wait_stepped() does.
  std::vector<at::Tensor> optimizer_parameters();
  // Waits until every unit is stepped. Call it before reading the optimizer's state.
  void wait_stepped();

  // Begins an optimizer step, before the first gradient is put in. With offload, the optimizer's
  // thread calls `see`, if given, for each gradient as soon as it is on the host. gradients() waits
  // for these calls.
  void begin_step(StepUnit step, SeeGradient see = {});
  // Takes the unit's complete gradient of the step, in the parameters' dtype. The caller has made
  // compute wait for gradient.ready.
  void put_gradient(int unit, Gradient gradient);
  // Returns the step's gradients of trained units, where the optimizer works. Waits for gradients
  // that are being copied there. It cannot be called with step_on_arrival.
  std::vector<at::Tensor> gradients();
  // Steps the remaining units, in the next forward's order of gathers, and drops the gradients.
  // With offload and step_on_arrival, waits for units that are being stepped, and starts to update
  // the device's copies. Without step_on_arrival, wait_parameters() does this for each unit.
  void finish_step();

 private:
  struct ShardedUnit {
    FlatLayout layout;
    std::vector<Frozen> frozen{};
    at::Tensor parameters{};  // on the device; undefined with `offload: parameters`
    Gradient gradient{};
    EventPtr ready{};  // the device has the parameters of the last optimizer step
    bool is_stepped = false;
    // With offload:
    at::Tensor host_parameters{};
    at::Tensor host_gradient{};
    EventPtr copied{};   // the gradient is in host_gradient
    EventPtr seen{};     // SeeGradient was called
    EventPtr stepped{};  // host_parameters are stepped; null: nothing to wait for
  };
  at::Tensor first_parameters(const FlatLayout& layout, at::ScalarType dtype,
                              const FillParameter& fill) const;
  at::Tensor on_device(const at::Tensor& first, at::ScalarType dtype) const;
  void send_gradient_to_host(int unit);
  void see_gradient(int unit);
  void finish_sending();
  void drop_gradient(int unit, StreamId reader);
  void step_unit(int unit);
  // Waits until the optimizer's thread has stepped the unit. Then starts to update the device's
  // copy.
  void take_stepped(int unit);
  void bring_parameters_to_device(int unit);

  Options options_;
  Backend& backend_;
  Streams& streams_;
  std::vector<ShardedUnit> units_;
  StepUnit step_;
  SeeGradient see_;
  std::optional<int> sending_;  // the unit whose gradient is on its way to the host
};

}  // namespace fsdp
