#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <vector>

#include "trainer/engine/streams.h"
#include "trainer/strategy/flat_layout.h"

namespace fsdp {

// Writes elements [offset, offset + out.numel()) of a parameter's flattened first value into the
// CPU tensor `out`.
using FillParameter =
    std::function<void(const Parameter& parameter, int64_t offset, const at::Tensor& out)>;

// Owns this rank's part of every unit's parameters, and the step's gradient for it; the strategies
// read the parts and put gradients in, the optimizer steps them.
//
// With `offload_optimizer` (after ZeRO-Offload, Ren et al. 2021) a gradient leaves for CPU memory
// as soon as it is put in, the optimizer steps a copy of the parameters there, and the result comes
// back to the device. On a CPU device the same copies are made.
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
    at::TensorOptions tensor;  // dtype and device of the parameters
    int64_t shard_count = 1;   // 1: every rank owns everything
    int64_t shard_index = 0;
    bool offload_optimizer = false;
  };
  ShardStore(const Model& model, const Options& options, Streams& streams,
             const FillParameter& fill);

  int unit_count() const { return static_cast<int>(units_.size()); }
  const FlatLayout& layout(int unit) const { return units_[unit].layout; }
  const Options& options() const { return options_; }
  bool is_sharded() const { return options_.shard_count > 1; }
  // [shard_numel], on the device.
  const at::Tensor& parameters(int unit) const { return units_[unit].parameters; }
  // Orders `stream` after the optimizer's last write of the unit's parameters.
  void wait_parameters(int unit, StreamId stream);

  // [shard_numel] by unit, where the optimizer works: on the host with offload.
  std::vector<at::Tensor> optimizer_parameters() const;

  // The step's complete gradient; compute is ordered after `ready`.
  void put_gradient(int unit, Gradient gradient);
  // The step's gradients where the optimizer works, by unit; waits for those on their way there.
  std::vector<at::Tensor> gradients();
  // Calls step(unit, parameters, gradient) for every unit where the optimizer works, in the order
  // of backward, in which gradients arrive; drops the gradients and starts the parameters' way
  // back.
  void step(const std::function<void(int unit, const at::Tensor& parameters,
                                     const at::Tensor& gradient)>& step);

 private:
  struct Unit {
    explicit Unit(FlatLayout unit_layout) : layout(std::move(unit_layout)) {}
    FlatLayout layout;
    at::Tensor parameters;
    Gradient gradient;
    EventPtr stepped;  // the parameters on the device are those of the last optimizer step
    // With offload:
    at::Tensor host_parameters;
    at::Tensor host_gradient;
    EventPtr copied;  // the gradient is in host_gradient
  };
  at::Tensor first_parameters(const FlatLayout& layout, const FillParameter& fill) const;
  at::Tensor empty_host(int64_t numel) const;
  void send_gradient_to_host(int unit);
  void finish_sending();
  void drop_gradient(int unit, StreamId reader);

  Options options_;
  Streams& streams_;
  std::vector<Unit> units_;
  std::optional<int> sending_;  // the unit whose gradient is on its way to the host
};

}  // namespace fsdp
