#include "trainer/strategy/fsdp.h"

#include <c10/util/Exception.h>

namespace fsdp {

FsdpStrategy::FsdpStrategy(ShardStore& store, Streams& streams, ProcessGroup& group,
                           bool reduce_every_micro_batch)
    : store_(store),
      streams_(streams),
      group_(group),
      reduce_every_micro_batch_(reduce_every_micro_batch),
      units_(store.unit_count()) {}

void FsdpStrategy::gather(int unit) {
  Unit& state = units_[unit];
  if (state.whole.defined()) return;
  store_.wait_parameters(unit, StreamId::kGather);
  streams_.allocated(StreamId::kGather, whole_buffer(unit));
  streams_.run(StreamId::kGather,
               {.reads = {{BufferKind::kParameters, unit}}, .writes = {whole_buffer(unit)}}, [&] {
                 state.whole = at::empty({store_.layout(unit).numel()}, store_.options().tensor);
                 state.gathering = group_.all_gather(state.whole, store_.parameters(unit));
               });
  state.gathered = streams_.record(StreamId::kGather);
}

void FsdpStrategy::wait_whole(int unit) {
  Unit& state = units_[unit];
  gather(unit);
  state.gathering.wait();
  streams_.block(StreamId::kCompute, state.gathered);
  store_.layout(unit).bind_values(state.whole);
}

void FsdpStrategy::release(int unit) {
  store_.layout(unit).bind_values({});
  streams_.order(StreamId::kCompute, StreamId::kGather);
  units_[unit].whole.reset();
  streams_.freed(whole_buffer(unit));
}

void FsdpStrategy::attach_gradient(int unit) {
  Unit& state = units_[unit];
  if (state.gradient.defined()) return;
  const FlatLayout& layout = store_.layout(unit);
  streams_.allocated(StreamId::kCompute, {BufferKind::kGradient, unit});
  state.gradient = at::empty({layout.numel()}, store_.options().tensor);
  layout.zero_gaps(state.gradient);
  layout.bind_gradients(state.gradient);
}

void FsdpStrategy::reduce(int unit) {
  if (!reduce_every_micro_batch_ && !is_last_micro_batch_) return;
  const FlatLayout& layout = store_.layout(unit);
  TORCH_CHECK(layout.is_gradient_complete(), "unit ", unit, " has a parameter without a gradient");
  layout.bind_gradients({});
  finish_reduction();
  reduction_.emplace(Reduction{.unit = unit, .shard = {}, .pending = {}, .reduced = nullptr});
  streams_.order(StreamId::kCompute, StreamId::kReduce);
  streams_.allocated(StreamId::kReduce, {BufferKind::kReducedShard, unit});
  streams_.run(
      StreamId::kReduce,
      {.reads = {{BufferKind::kGradient, unit}}, .writes = {{BufferKind::kReducedShard, unit}}},
      [&] {
        reduction_->shard = at::empty({layout.shard_numel()}, store_.options().tensor);
        reduction_->pending = group_.reduce_scatter(reduction_->shard, units_[unit].gradient);
      });
  reduction_->reduced = streams_.record(StreamId::kReduce);
}

void FsdpStrategy::finish_reduction() {
  if (!reduction_) return;
  Reduction reduction = *std::move(reduction_);
  reduction_.reset();
  reduction.pending.wait();
  streams_.block(StreamId::kCompute, reduction.reduced);
  units_[reduction.unit].gradient.reset();
  streams_.freed({BufferKind::kGradient, reduction.unit});
  accumulate(reduction.unit, std::move(reduction.shard), reduction.reduced);
}

void FsdpStrategy::accumulate(int unit, at::Tensor shard, EventPtr ready) {
  at::Tensor& sum = units_[unit].accumulated;
  const Buffer shard_buffer{BufferKind::kReducedShard, unit};
  Buffer sum_buffer{BufferKind::kGradientShard, unit};
  if (!sum.defined()) {
    sum = std::move(shard);
    streams_.renamed(shard_buffer, sum_buffer);
  } else {
    streams_.run(StreamId::kCompute, {.reads = {shard_buffer}, .writes = {sum_buffer}},
                 [&] { sum.add_(shard); });
    ready = streams_.record(StreamId::kCompute);
    streams_.block(StreamId::kReduce, ready);
    shard.reset();
    streams_.freed(shard_buffer);
  }
  if (is_last_micro_batch_) {
    store_.put_gradient(unit, {.shard = std::move(sum),
                               .buffer = sum_buffer,
                               .pool = StreamId::kReduce,
                               .ready = std::move(ready)});
  }
}

void FsdpStrategy::finish_backward() { finish_reduction(); }

}  // namespace fsdp
