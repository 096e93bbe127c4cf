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

// Writes elements [offset, offset + out.numel()) of a parameter's flattened first value into `out`,
// a tensor of the host.
using FillParameter =
    std::function<void(const Parameter& parameter, int64_t offset, const at::Tensor& out)>;

// Steps a unit's parameters in place, where they live, by a gradient of their dtype and device,
// which it may overwrite.
using StepUnit =
    std::function<void(int unit, const at::Tensor& parameters, const at::Tensor& gradient)>;

// Looks at a unit's complete gradient.
using SeeGradient = std::function<void(int unit, const at::Tensor& gradient)>;

// Owns this rank's part of every unit's parameters, and the step's gradient for it; the strategy
// reads the parts and puts gradients in, the optimizer steps them.
//
// With offload (after ZeRO-Offload, Ren et al. 2021) a gradient leaves for CPU memory as soon as it
// is put in, the optimizer steps the parameters there on a thread of its own, and the result comes
// back: at once with `offload: optimizer`, which keeps a copy on the device, and with each gather
// with `offload: parameters`. On a CPU device the same copies are made. Units that are stepped
// after the last gradient has arrived are stepped while the next forward runs, which waits for each
// unit when it needs it.
//
// The streams are drained before it is destroyed.
class ShardStore {
 public:
  // A gradient [shard_numel], in memory of a stream's pool.
  struct Gradient {
    at::Tensor shard;
    Buffer buffer{};
    StreamId pool = StreamId::kCompute;
    EventPtr ready;  // it is complete
  };
  struct Options {
    at::ScalarType dtype = at::kFloat;  // of the parameters
    int64_t item_bytes = 4;             // of the narrowest dtype that a unit's buffers have
    int64_t shard_count = 1;            // 1: every rank owns everything
    int64_t shard_index = 0;
    Offload offload = Offload::kNone;
    // Step a unit as soon as its gradient is there, instead of all of them in finish_step().
    bool step_on_arrival = false;
  };
  ShardStore(const Model& model, std::span<const Unit> units, const Options& options,
             Backend& backend, const FillParameter& fill);
  ShardStore(const ShardStore&) = delete;
  ShardStore& operator=(const ShardStore&) = delete;

  int unit_count() const { return static_cast<int>(units_.size()); }
  const FlatLayout& layout(int unit) const { return units_[unit].layout; }
  const Options& options() const { return options_; }
  // Of what the parameters are on the device.
  at::TensorOptions tensor_options() const {
    return at::TensorOptions(options_.dtype).device(backend_.device());
  }
  bool is_sharded() const { return options_.shard_count > 1; }
  bool is_offloaded() const { return options_.offload != Offload::kNone; }

  // What a gather reads: [shard_numel], on the device, or with `offload: parameters` on the host.
  const at::Tensor& parameters(int unit) const;
  Buffer parameters_buffer(int unit) const;
  // Orders `stream` after the optimizer's last write of parameters(unit), which the calling thread
  // waits for where that thread may still be stepping.
  void wait_parameters(int unit, StreamId stream);

  // Copies parameters(unit) to `to`, of the device and any dtype, on the current stream.
  void copy_parameters(int unit, const at::Tensor& to) const;

  // [shard_numel] by unit, where the optimizer works: on the host with offload. Not during a step.
  // Waits as wait_stepped() does.
  std::vector<at::Tensor> optimizer_parameters();
  // Waits until the optimizer's thread has stepped every unit, before its state is read.
  void wait_stepped();

  // Begins an optimizer step, before the first gradient is put in. With offload `see`, if there is
  // one, is called on the optimizer's thread as soon as a gradient is on the host, until
  // gradients() returns.
  void begin_step(StepUnit step, SeeGradient see = {});
  // The step's complete gradient, of the parameters' dtype; compute is ordered after `ready`.
  void put_gradient(int unit, Gradient gradient);
  // The step's gradients where the optimizer works, by unit; waits for those on their way there.
  // Not with step_on_arrival.
  std::vector<at::Tensor> gradients();
  // Steps every unit that is not stepped yet, in the order in which the next forward gathers them,
  // and drops the gradients. With step_on_arrival waits for the units that are being stepped and
  // starts their way back; without it each goes back when it is next waited for.
  void finish_step();

 private:
  struct ShardedUnit {
    explicit ShardedUnit(FlatLayout unit_layout) : layout(std::move(unit_layout)) {}
    FlatLayout layout;
    at::Tensor parameters;  // on the device; undefined with `offload: parameters`
    Gradient gradient;
    EventPtr ready;  // the parameters on the device are those of the last optimizer step
    bool is_stepped = false;
    // With offload:
    at::Tensor host_parameters;
    at::Tensor host_gradient;
    EventPtr copied;   // the gradient is in host_gradient
    EventPtr seen;     // SeeGradient was called
    EventPtr stepped;  // host_parameters are those of this step; null: nothing waits for them
  };
  at::Tensor first_parameters(const FlatLayout& layout, const FillParameter& fill) const;
  void send_gradient_to_host(int unit);
  void see_gradient(int unit);
  void finish_sending();
  void drop_gradient(int unit, StreamId reader);
  void step_unit(int unit);
  // Waits for the optimizer's thread and starts the parameters' way back.
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
