#include "trainer/strategy/replicated.h"

#include <c10/util/Exception.h>

namespace fsdp {

ReplicatedStrategy::ReplicatedStrategy(ShardStore& store, Streams& streams, ProcessGroup* group)
    : store_(store), streams_(streams), group_(group), gradients_(store.unit_count()) {
  for (int i = 0; i < store.unit_count(); ++i) store.layout(i).bind_values(store.parameters(i));
}

void ReplicatedStrategy::wait_whole(int unit) { store_.wait_parameters(unit, StreamId::kCompute); }

void ReplicatedStrategy::attach_gradient(int unit) {
  if (gradients_[unit].defined()) return;
  const FlatLayout& layout = store_.layout(unit);
  streams_.allocated(StreamId::kCompute, {BufferKind::kGradient, unit});
  gradients_[unit] = at::empty({layout.numel()}, store_.options().tensor);
  layout.zero_gaps(gradients_[unit]);
  layout.bind_gradients(gradients_[unit]);
}

void ReplicatedStrategy::reduce(int unit) {
  if (!is_last_micro_batch_) return;
  const FlatLayout& layout = store_.layout(unit);
  TORCH_CHECK(layout.is_gradient_complete(), "unit ", unit, " has a parameter without a gradient");
  layout.bind_gradients({});
  if (group_ == nullptr) {
    put_gradient(unit, streams_.record(StreamId::kCompute));
    return;
  }
  // An offloaded gradient should leave soon, so that few are on the device.
  if (store_.options().offload_optimizer && !reductions_.empty()) finish_oldest_reduction();
  streams_.order(StreamId::kCompute, StreamId::kReduce);
  Reduction reduction{.unit = unit, .pending = {}, .reduced = nullptr};
  streams_.run(StreamId::kReduce, {.reads = {}, .writes = {{BufferKind::kGradient, unit}}},
               [&] { reduction.pending = group_->all_reduce(gradients_[unit]); });
  reduction.reduced = streams_.record(StreamId::kReduce);
  reductions_.push_back(std::move(reduction));
}

void ReplicatedStrategy::finish_oldest_reduction() {
  Reduction reduction = std::move(reductions_.front());
  reductions_.pop_front();
  reduction.pending.wait();
  streams_.block(StreamId::kCompute, reduction.reduced);
  put_gradient(reduction.unit, std::move(reduction.reduced));
}

void ReplicatedStrategy::put_gradient(int unit, EventPtr ready) {
  store_.put_gradient(unit, {.shard = std::move(gradients_[unit]),
                             .buffer = {BufferKind::kGradient, unit},
                             .pool = StreamId::kCompute,
                             .ready = std::move(ready)});
}

void ReplicatedStrategy::finish_backward() {
  while (!reductions_.empty()) finish_oldest_reduction();
}

}  // namespace fsdp
