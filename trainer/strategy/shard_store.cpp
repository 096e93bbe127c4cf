// Owns a rank's parameters and steps them, on the device or on a thread of the host.
#include "trainer/strategy/shard_store.h"

#include <utility>

#include "trainer/kernels/work.h"
#include "trainer/memory/counting_allocator.h"
#include "trainer/memory/memory_label.h"

namespace fsdp {

namespace {

std::vector<ParameterPtr> parameters_of(const Model& model, const Unit& unit, bool is_trained,
                                        bool is_quantized) {
  std::vector<ParameterPtr> parameters = parameters_of(model, unit);
  std::erase_if(parameters, [&](const ParameterPtr& parameter) {
    return parameter->is_trained() != is_trained || parameter->is_quantized() != is_quantized;
  });
  return parameters;
}

}  // namespace

ShardStore::ShardStore(const Model& model, std::span<const Unit> units, const Options& options,
                       Backend& backend, const FillParameter& fill)
    : options_(options), backend_(backend), streams_(backend.streams()) {
  const MemoryScope scope(MemoryUse::kParameters);
  units_.reserve(units.size());
  for (const Unit& unit : units) {
    ShardedUnit& state = units_.emplace_back(
        ShardedUnit{.layout = FlatLayout(parameters_of(model, unit, true, false),
                                         options.item_bytes, options.shard_count, options.block)});
    const bool is_on_host = options.offload == Offload::kParameters;
    const at::Tensor first = first_parameters(state.layout, options.dtype, fill);
    if (!is_on_host) state.parameters = on_device(first, options.dtype);
    if (is_offloaded()) {
      state.host_parameters = backend.empty_host(first.numel(), options.dtype).copy_(first);
      state.host_gradient = backend.empty_host(first.numel(), options.dtype);
    }
    const auto add_frozen = [&](bool is_quantized, int64_t item_bytes, at::ScalarType dtype) {
      FlatLayout layout(parameters_of(model, unit, false, is_quantized), item_bytes,
                        options.shard_count);
      if (layout.numel() == 0) return;
      const at::Tensor values = first_parameters(layout, dtype, fill);
      state.frozen.push_back(
          {std::move(layout), is_on_host ? backend.empty_host(values.numel(), dtype).copy_(values)
                                         : on_device(values, dtype)});
    };
    add_frozen(false, options.item_bytes, options.frozen_dtype);
    add_frozen(true, /*item_bytes=*/1, at::kByte);
  }
}

// On the CPU, `first` itself is the device's copy.
at::Tensor ShardStore::on_device(const at::Tensor& first, at::ScalarType dtype) const {
  return first.to(backend_.device(), dtype, /*non_blocking=*/false,
                  /*copy=*/backend_.planned_for() != at::kCPU);
}

at::Tensor ShardStore::first_parameters(const FlatLayout& layout, at::ScalarType dtype,
                                        const FillParameter& fill) const {
  // Weights are read into host memory, also for a GPU.
  const UncountedMemory beside_a_gpu(backend_.planned_for() != at::kCPU);
  const auto on_the_host = at::TensorOptions(dtype).device(backend_.host());
  const at::Tensor shard = at::zeros({layout.shard_numel()}, on_the_host);
  layout.for_each_part(shard, options_.shard_index,
                       [&](const Parameter& parameter, int64_t offset, const at::Tensor& part) {
                         fill(parameter, offset, part);
                       });
  return shard;
}

const at::Tensor& ShardStore::parameters(int unit) const {
  const ShardedUnit& state = units_[unit];
  return options_.offload == Offload::kParameters ? state.host_parameters : state.parameters;
}

Buffer ShardStore::parameters_buffer(int unit) const {
  const bool on_host = options_.offload == Offload::kParameters;
  return {on_host ? BufferKind::kHostParameters : BufferKind::kParameters, unit};
}

void ShardStore::wait_parameters(int unit, StreamId stream) {
  const WorkScope wait(TimePart::kCopies);
  take_stepped(unit);
  if (units_[unit].ready) streams_.block(stream, units_[unit].ready);
}

void ShardStore::copy_to_device(at::Tensor own, const at::Tensor& to) const {
  const bool is_elsewhere =
      options_.offload == Offload::kParameters && backend_.planned_for() != at::kCPU;
  // libtorch would convert on the device in memory of its own, which a plan on meta does not see.
  if (is_elsewhere && own.scalar_type() != to.scalar_type()) {
    own = at::empty(own.sizes(), tensor_options().dtype(own.scalar_type()))
              .copy_(own, /*non_blocking=*/true);
  }
  at::Tensor(to).copy_(own, /*non_blocking=*/true);
}

void ShardStore::wait_stepped() {
  for (int unit = 0; unit < unit_count(); ++unit) take_stepped(unit);
}

std::vector<at::Tensor> ShardStore::optimizer_parameters() {
  wait_stepped();
  std::vector<at::Tensor> parameters;
  for (const ShardedUnit& unit : units_) {
    parameters.push_back(is_offloaded() ? unit.host_parameters : unit.parameters);
  }
  return parameters;
}

void ShardStore::begin_step(StepUnit step, SeeGradient see) {
  step_ = std::move(step);
  see_ = std::move(see);
  for (ShardedUnit& state : units_) state.is_stepped = false;
}

void ShardStore::put_gradient(int unit, Gradient gradient) {
  units_[unit].gradient = std::move(gradient);
  if (is_offloaded()) send_gradient_to_host(unit);
  if (options_.step_on_arrival) step_unit(unit);
}

void ShardStore::send_gradient_to_host(int unit) {
  finish_sending();
  ShardedUnit& state = units_[unit];
  streams_.block(StreamId::kCopy, state.gradient.ready);
  streams_.run(
      StreamId::kCopy,
      {.reads = {state.gradient.buffer}, .writes = {{BufferKind::kHostGradient, unit}}}, [&] {
        const WorkScope work([&] {
          return Work{
              .name = kToHostWork, .width = state.host_gradient.numel(), .part = TimePart::kCopies};
        });
        state.host_gradient.copy_(state.gradient.shard, /*non_blocking=*/true);
      });
  state.copied = streams_.record(StreamId::kCopy);
  sending_ = unit;
  if (see_) see_gradient(unit);
}

void ShardStore::see_gradient(int unit) {
  ShardedUnit& state = units_[unit];
  streams_.block(StreamId::kOptimizer, state.copied);
  streams_.run(StreamId::kOptimizer, {.reads = {{BufferKind::kHostGradient, unit}}, .writes = {}},
               [see = see_, unit, gradient = state.host_gradient] {
                 const UncountedMemory on_the_host;
                 see(unit, gradient);
               });
  state.seen = streams_.record(StreamId::kOptimizer);
}

// Called when the next gradient is sent, because the gradient's stream would have to wait if it
// were called at once.
void ShardStore::finish_sending() {
  if (sending_) drop_gradient(*std::exchange(sending_, std::nullopt), StreamId::kCopy);
}

void ShardStore::drop_gradient(int unit, StreamId reader) {
  Gradient& gradient = units_[unit].gradient;
  if (gradient.pool != reader) streams_.order(reader, gradient.pool);
  gradient.shard.reset();
  streams_.freed(gradient.buffer);
}

// If a norm is measured, waits until the optimizer's thread has seen each gradient.
std::vector<at::Tensor> ShardStore::gradients() {
  finish_sending();
  std::vector<at::Tensor> gradients;
  for (ShardedUnit& state : units_) {
    if (state.layout.numel() == 0) continue;
    if (is_offloaded()) {
      const WorkScope wait(see_ ? TimePart::kClipping : TimePart::kCopies);
      streams_.block(StreamId::kHost, see_ ? state.seen : state.copied);
    }
    gradients.push_back(is_offloaded() ? state.host_gradient : state.gradient.shard);
  }
  return gradients;
}

void ShardStore::step_unit(int unit) {
  ShardedUnit& state = units_[unit];
  state.is_stepped = true;
  if (is_offloaded()) {
    streams_.block(StreamId::kOptimizer, state.copied);
    streams_.run(
        StreamId::kOptimizer,
        {.reads = {},
         .writes = {{BufferKind::kHostParameters, unit}, {BufferKind::kHostGradient, unit}}},
        // Captured by value: the thread may run this when the next forward has begun.
        [step = step_, unit, parameters = state.host_parameters, gradient = state.host_gradient] {
          const UncountedMemory on_the_host;
          step(unit, parameters, gradient);
        });
    state.stepped = streams_.record(StreamId::kOptimizer);
    return;
  }
  streams_.run(StreamId::kCompute,
               {.reads = {}, .writes = {{BufferKind::kParameters, unit}, state.gradient.buffer}},
               [&] { step_(unit, state.parameters, state.gradient.shard); });
  state.ready = streams_.record(StreamId::kCompute);
  drop_gradient(unit, StreamId::kCompute);
}

// Without step_on_arrival nothing is taken here: the next forward begins while the thread steps.
void ShardStore::finish_step() {
  finish_sending();
  // The next forward waits for the units in this order.
  for (int unit = 0; unit < unit_count(); ++unit) {
    if (is_trained(unit) && !units_[unit].is_stepped) step_unit(unit);
  }
  if (!options_.step_on_arrival) return;
  for (int unit = unit_count() - 1; unit >= 0; --unit) take_stepped(unit);
}

void ShardStore::take_stepped(int unit) {
  ShardedUnit& state = units_[unit];
  if (!state.stepped) return;
  {
    const WorkScope wait(TimePart::kOptimizer);
    streams_.block(StreamId::kHost, std::exchange(state.stepped, nullptr));
  }
  if (options_.offload == Offload::kOptimizer) bring_parameters_to_device(unit);
}

void ShardStore::bring_parameters_to_device(int unit) {
  ShardedUnit& state = units_[unit];
  streams_.run(
      StreamId::kCopy,
      {.reads = {{BufferKind::kHostParameters, unit}}, .writes = {{BufferKind::kParameters, unit}}},
      [&] {
        const WorkScope work([&] {
          return Work{
              .name = kToDeviceWork, .width = state.parameters.numel(), .part = TimePart::kCopies};
        });
        state.parameters.copy_(state.host_parameters, /*non_blocking=*/true);
      });
  state.ready = streams_.record(StreamId::kCopy);
}

}  // namespace fsdp
