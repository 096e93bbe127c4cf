#include "trainer/strategy/shard_store.h"

#include <utility>

namespace fsdp {

ShardStore::ShardStore(const Model& model, const Options& options, Streams& streams,
                       const FillParameter& fill)
    : options_(options), streams_(streams) {
  const int64_t item_bytes = static_cast<int64_t>(options.tensor.dtype().itemsize());
  units_.reserve(model.units.size());
  for (const auto& unit : model.units) {
    Unit& state =
        units_.emplace_back(FlatLayout(unit->parameters(), item_bytes, options.shard_count));
    const at::Tensor first = first_parameters(state.layout, fill);
    state.parameters = first.to(options.tensor.device());
    if (options.offload_optimizer) {
      state.host_parameters = empty_host(first.numel()).copy_(first);
      state.host_gradient = empty_host(first.numel());
    }
  }
}

at::Tensor ShardStore::first_parameters(const FlatLayout& layout, const FillParameter& fill) const {
  const at::Tensor shard = at::zeros({layout.shard_numel()}, options_.tensor.device(at::kCPU));
  layout.for_each_part(shard, options_.shard_index,
                       [&](const Parameter& parameter, int64_t offset, const at::Tensor& part) {
                         fill(parameter, offset, part);
                       });
  return shard;
}

at::Tensor ShardStore::empty_host(int64_t numel) const {
  const bool pinned = !options_.tensor.device().is_cpu();
  return at::empty({numel}, options_.tensor.device(at::kCPU).pinned_memory(pinned));
}

std::vector<at::Tensor> ShardStore::optimizer_parameters() const {
  std::vector<at::Tensor> parameters;
  for (const Unit& unit : units_) {
    parameters.push_back(options_.offload_optimizer ? unit.host_parameters : unit.parameters);
  }
  return parameters;
}

void ShardStore::wait_parameters(int unit, StreamId stream) {
  if (units_[unit].stepped) streams_.block(stream, units_[unit].stepped);
}

void ShardStore::put_gradient(int unit, Gradient gradient) {
  units_[unit].gradient = std::move(gradient);
  if (options_.offload_optimizer) send_gradient_to_host(unit);
}

void ShardStore::send_gradient_to_host(int unit) {
  finish_sending();
  Unit& state = units_[unit];
  streams_.block(StreamId::kCopy, state.gradient.ready);
  streams_.run(StreamId::kCopy,
               {.reads = {state.gradient.buffer}, .writes = {{BufferKind::kHostGradient, unit}}},
               [&] { state.host_gradient.copy_(state.gradient.shard, /*non_blocking=*/true); });
  state.copied = streams_.record(StreamId::kCopy);
  sending_ = unit;
}

// One unit later, so that the stream whose memory is read need not wait for the copy at once.
void ShardStore::finish_sending() {
  if (sending_) drop_gradient(*std::exchange(sending_, std::nullopt), StreamId::kCopy);
}

void ShardStore::drop_gradient(int unit, StreamId reader) {
  Gradient& gradient = units_[unit].gradient;
  if (gradient.pool != reader) streams_.order(reader, gradient.pool);
  gradient.shard.reset();
  streams_.freed(gradient.buffer);
}

std::vector<at::Tensor> ShardStore::gradients() {
  finish_sending();
  std::vector<at::Tensor> gradients;
  for (Unit& state : units_) {
    if (options_.offload_optimizer) streams_.block(StreamId::kHost, state.copied);
    gradients.push_back(options_.offload_optimizer ? state.host_gradient : state.gradient.shard);
  }
  return gradients;
}

void ShardStore::step(const std::function<void(int, const at::Tensor&, const at::Tensor&)>& step) {
  finish_sending();
  for (int i = unit_count() - 1; i >= 0; --i) {
    Unit& state = units_[i];
    if (options_.offload_optimizer) {
      streams_.block(StreamId::kHost, state.copied);
      streams_.run(
          StreamId::kHost,
          {.reads = {{BufferKind::kHostGradient, i}}, .writes = {{BufferKind::kHostParameters, i}}},
          [&] { step(i, state.host_parameters, state.host_gradient); });
      streams_.run(
          StreamId::kCopy,
          {.reads = {{BufferKind::kHostParameters, i}}, .writes = {{BufferKind::kParameters, i}}},
          [&] { state.parameters.copy_(state.host_parameters, /*non_blocking=*/true); });
      state.stepped = streams_.record(StreamId::kCopy);
    } else {
      streams_.run(StreamId::kCompute,
                   {.reads = {state.gradient.buffer}, .writes = {{BufferKind::kParameters, i}}},
                   [&] { step(i, state.parameters, state.gradient.shard); });
      state.stepped = streams_.record(StreamId::kCompute);
      drop_gradient(i, StreamId::kCompute);
    }
  }
}

}  // namespace fsdp
