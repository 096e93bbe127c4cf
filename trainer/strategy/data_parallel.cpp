// Gathers units and reduces gradients on streams of their own. Each access to a buffer is declared.
#include "trainer/strategy/data_parallel.h"

#include <c10/util/Exception.h>

#include <utility>

#include "trainer/kernels/work.h"
#include "trainer/memory/memory_label.h"

namespace fsdp {

DataParallel::DataParallel(ShardStore& store, Streams& streams, ProcessGroup* shard_group,
                           ProcessGroup* gather_group, ProcessGroup* replica_group,
                           const Options& options)
    : store_(store),
      streams_(streams),
      shard_group_(shard_group),
      gather_group_(gather_group),
      replica_group_(replica_group),
      options_(options),
      units_(store.unit_count()) {
  for (int i = 0; i < store.unit_count(); ++i) {
    // Such values never move, so modules read them here for good.
    if (is_in_place()) store.layout(i).bind_values(store.parameters(i));
    if (!is_kept_whole()) continue;
    for (const auto& [layout, values] : store.frozen(i)) layout.bind_values(values);
  }
}

bool DataParallel::is_in_place() const {
  return is_kept_whole() && options_.dtypes.compute == options_.dtypes.parameters;
}

bool DataParallel::is_kept_whole() const {
  return shard_group_ == nullptr && store_.options().offload != Offload::kParameters;
}

Buffer DataParallel::whole_buffer(int unit) const {
  if (!needs_gather(unit)) return store_.parameters_buffer(unit);
  return {BufferKind::kWhole, unit};
}

bool DataParallel::needs_gather(int unit) const {
  return (!is_in_place() && store_.is_trained(unit)) ||
         (!is_kept_whole() && !store_.frozen(unit).empty());
}

void DataParallel::gather(int unit) {
  UnitState& state = units_[unit];
  if (!needs_gather(unit) || state.whole.is_defined()) return;
  // Gives back the memory of earlier units before it takes more.
  free_released();
  const MemoryScope scope(MemoryUse::kWhole);
  store_.wait_parameters(unit, StreamId::kGather);
  streams_.allocated(StreamId::kGather, whole_buffer(unit));
  streams_.run(StreamId::kGather,
               {.reads = {store_.parameters_buffer(unit)}, .writes = {whole_buffer(unit)}}, [&] {
                 if (!is_in_place() && store_.is_trained(unit)) {
                   gather_values(unit, store_.parameters(unit), options_.dtypes.compute,
                                 state.whole.trained);
                 }
                 if (is_kept_whole()) return;
                 for (const ShardStore::Frozen& frozen : store_.frozen(unit)) {
                   gather_values(unit, frozen.values, frozen.values.scalar_type(),
                                 state.whole.frozen.emplace_back());
                 }
               });
  state.gathered = streams_.record(StreamId::kGather);
}

// Begins to gather values into `whole`. `own` is this rank's part. `whole` stays alive until the
// collective has ended, even if something throws meanwhile.
void DataParallel::gather_values(int unit, const at::Tensor& own, at::ScalarType dtype,
                                 at::Tensor& whole) {
  whole =
      at::empty({own.numel() * store_.options().shard_count}, store_.tensor_options().dtype(dtype));
  at::Tensor shard = own;
  const bool is_on_host = store_.options().offload == Offload::kParameters;
  if (own.dtype() != whole.dtype() || shard_group_ == nullptr || is_on_host) {
    // The collective then works in place: this rank's part is already where it belongs.
    shard = whole.narrow(0, store_.options().shard_index * own.numel(), own.numel());
    const WorkScope work([&] {
      if (!is_on_host) {
        return Work{.name = kConvertWork, .width = own.numel(), .part = TimePart::kConversion};
      }
      // Calibrations time copies by elements of the parameters' dtype.
      const auto bytes = static_cast<int64_t>(own.nbytes());
      return Work{.name = kToDeviceWork,
                  .width = bytes / static_cast<int64_t>(store_.tensor_options().dtype().itemsize()),
                  .part = TimePart::kCopies};
    });
    store_.copy_to_device(own, shard);
  }
  if (shard_group_ != nullptr) {
    units_[unit].gathering.push_back(gather_group_->all_gather(whole, shard, unit));
  }
}

void DataParallel::wait_whole(int unit) {
  if (!needs_gather(unit)) {
    store_.wait_parameters(unit, StreamId::kCompute);
    return;
  }
  gather(unit);
  UnitState& state = units_[unit];
  {
    const WorkScope wait(shard_group_ ? TimePart::kAllGatherForward : TimePart::kCopies);
    for (Pending& gathering : state.gathering) gathering.wait();
    state.gathering.clear();
    streams_.block(StreamId::kCompute, state.gathered);
  }
  if (state.whole.trained.defined()) store_.layout(unit).bind_values(state.whole.trained);
  for (size_t i = 0; i < state.whole.frozen.size(); ++i) {
    store_.frozen(unit)[i].layout.bind_values(state.whole.frozen[i]);
  }
}

void DataParallel::release(int unit) {
  // Converted values serve all micro-batches of a step.
  if (!needs_gather(unit) || (is_kept_whole() && !is_last_micro_batch_)) return;
  Whole whole = std::exchange(units_[unit].whole, {});
  if (whole.trained.defined()) store_.layout(unit).bind_values({});
  if (!is_kept_whole()) {
    for (const ShardStore::Frozen& frozen : store_.frozen(unit)) frozen.layout.bind_values({});
  }
  // The gather stream waits for compute, so its next allocation may reuse this memory.
  if (options_.limit_all_gathers) {
    streams_.order(StreamId::kCompute, StreamId::kGather);
    whole = {};
    streams_.freed(whole_buffer(unit));
    return;
  }
  const Buffer kept{BufferKind::kReleased, unit};
  streams_.renamed(whole_buffer(unit), kept);
  released_.push_back({unit, std::move(whole), streams_.record(StreamId::kCompute)});
  free_released();
}

void DataParallel::free_released() {
  while (!released_.empty() && streams_.is_done(released_.front().read)) {
    streams_.freed({BufferKind::kReleased, released_.front().unit});
    released_.pop_front();
  }
}

void DataParallel::attach_gradient(int unit) {
  UnitState& state = units_[unit];
  if (state.gradient.defined() || !store_.is_trained(unit)) return;
  const FlatLayout& layout = store_.layout(unit);
  const MemoryScope scope(unit, MemoryUse::kGradients);
  streams_.allocated(StreamId::kCompute, {BufferKind::kGradient, unit});
  state.gradient =
      at::empty({layout.numel()}, store_.tensor_options().dtype(options_.dtypes.gradients));
  // Backward writes parameters only. Sums and norms also read the gaps.
  layout.zero_gaps(state.gradient);
  layout.bind_gradients(state.gradient);
}

bool DataParallel::reduces_micro_batch() const {
  return is_last_micro_batch_ || (shard_group_ != nullptr && options_.reduce_every_micro_batch);
}

void DataParallel::reduce(int unit) {
  if (!store_.is_trained(unit) || !reduces_micro_batch()) return;
  Gradient whole = take_whole_gradient(unit);
  if (shard_group_ != nullptr) {
    reduce_scatter(unit, std::move(whole));
  } else {
    replicate(unit, std::move(whole));
  }
}

// Returns the gradient that backward has written, in the reduction dtype.
DataParallel::Gradient DataParallel::take_whole_gradient(int unit) {
  const FlatLayout& layout = store_.layout(unit);
  TORCH_CHECK(layout.is_gradient_complete(), "unit ", unit, " has a parameter without a gradient");
  layout.bind_gradients({});
  return convert({.shard = std::exchange(units_[unit].gradient, {}),
                  .buffer = {BufferKind::kGradient, unit},
                  .pool = StreamId::kCompute,
                  .ready = streams_.record(StreamId::kCompute)},
                 options_.dtypes.reduction, {BufferKind::kReductionInput, unit});
}

DataParallel::Gradient DataParallel::convert(Gradient gradient, at::ScalarType dtype, Buffer as) {
  if (gradient.shard.scalar_type() == dtype) return gradient;
  const MemoryScope scope(as.unit, MemoryUse::kGradients);
  Gradient converted{.shard = {}, .buffer = as, .pool = StreamId::kCompute, .ready = {}};
  streams_.allocated(StreamId::kCompute, as);
  streams_.block(StreamId::kCompute, gradient.ready);
  streams_.run(StreamId::kCompute, {.reads = {gradient.buffer}, .writes = {as}}, [&] {
    const int64_t numel = gradient.shard.numel();
    const WorkScope work(
        [&] { return Work{.name = kConvertWork, .width = numel, .part = TimePart::kConversion}; });
    converted.shard = gradient.shard.to(dtype);
  });
  converted.ready = streams_.record(StreamId::kCompute);
  drop(std::move(gradient), StreamId::kCompute);
  return converted;
}

void DataParallel::add_to(std::optional<Gradient>& sum, Gradient term, Buffer as) {
  if (!sum) {
    streams_.renamed(term.buffer, as);
    term.buffer = as;
    sum = std::move(term);
    return;
  }
  streams_.block(StreamId::kCompute, term.ready);
  streams_.run(StreamId::kCompute, {.reads = {term.buffer}, .writes = {sum->buffer}}, [&] {
    const int64_t numel = sum->shard.numel();
    const WorkScope work(
        [&] { return Work{.name = kAddWork, .width = numel, .part = TimePart::kConversion}; });
    sum->shard.add_(term.shard);
  });
  sum->ready = streams_.record(StreamId::kCompute);
  drop(std::move(term), StreamId::kCompute);
}

void DataParallel::drop(Gradient gradient, StreamId reader) {
  if (gradient.pool != reader) streams_.order(reader, gradient.pool);
  gradient.shard.reset();
  streams_.freed(gradient.buffer);
}

void DataParallel::reduce_scatter(int unit, Gradient whole) {
  finish_reduce_scatter();
  const MemoryScope scope(unit, MemoryUse::kGradients);
  const Buffer shard_buffer{BufferKind::kReducedShard, unit};
  streams_.block(StreamId::kReduce, whole.ready);
  streams_.allocated(StreamId::kReduce, shard_buffer);
  Reduction& reduction = reduce_scatter_.emplace(Reduction{
      .unit = unit,
      .input = std::move(whole),
      .output = {.shard = {}, .buffer = shard_buffer, .pool = StreamId::kReduce, .ready = {}},
      .pending = {}});
  streams_.run(
      StreamId::kReduce, {.reads = {reduction.input.buffer}, .writes = {shard_buffer}}, [&] {
        const at::Tensor& input = reduction.input.shard;
        reduction.output.shard = at::empty({store_.layout(unit).shard_numel()}, input.options());
        reduction.pending = shard_group_->reduce_scatter(reduction.output.shard, input, unit);
      });
  reduction.output.ready = streams_.record(StreamId::kReduce);
}

// Called when the next unit is reduced, because compute would have to wait if it were called at
// once.
void DataParallel::finish_reduce_scatter() {
  if (!reduce_scatter_) return;
  Reduction reduction = *std::exchange(reduce_scatter_, std::nullopt);
  wait(reduction, TimePart::kReduceScatter);
  drop(std::move(reduction.input), StreamId::kReduce);
  accumulate(reduction.unit, std::move(reduction.output));
}

// Makes computation wait for the collective.
void DataParallel::wait(Reduction& reduction, TimePart part) {
  const WorkScope wait(part);
  reduction.pending.wait();
  streams_.block(StreamId::kCompute, reduction.output.ready);
}

void DataParallel::accumulate(int unit, Gradient shard) {
  std::optional<Gradient>& sum = units_[unit].accumulated;
  // A sum over micro-batches in a narrow dtype would lose small terms.
  if (!is_last_micro_batch_ || sum) {
    const Dtypes& dtypes = options_.dtypes;
    shard = convert(std::move(shard), c10::promoteTypes(dtypes.gradients, dtypes.parameters),
                    {BufferKind::kConvertedShard, unit});
    add_to(sum, std::move(shard), {BufferKind::kGradientShard, unit});
    if (!is_last_micro_batch_) return;
    shard = *std::exchange(sum, std::nullopt);
  }
  replicate(unit, std::move(shard));
}

void DataParallel::replicate(int unit, Gradient shard) {
  if (replica_group_ == nullptr) {
    put(unit, std::move(shard));
    return;
  }
  // If gradients are stepped or offloaded on arrival, finishes the previous all-reduce first. Each
  // gradient then arrives early, and few are kept.
  const ShardStore::Options& store = store_.options();
  if ((store_.is_offloaded() || store.step_on_arrival) && !all_reduces_.empty()) {
    finish_oldest_all_reduce();
  }
  // A sum over micro-batches may be wider than the reduction.
  shard = convert(std::move(shard), options_.dtypes.reduction, {BufferKind::kReductionInput, unit});
  streams_.block(StreamId::kReplicate, shard.ready);
  Reduction reduction{.unit = unit, .input = {}, .output = std::move(shard), .pending = {}};
  streams_.run(StreamId::kReplicate, {.reads = {}, .writes = {reduction.output.buffer}}, [&] {
    reduction.pending = replica_group_->all_reduce(reduction.output.shard, unit);
  });
  reduction.output.ready = streams_.record(StreamId::kReplicate);
  all_reduces_.push_back(std::move(reduction));
}

void DataParallel::finish_oldest_all_reduce() {
  Reduction reduction = std::move(all_reduces_.front());
  all_reduces_.pop_front();
  wait(reduction, TimePart::kAllReduce);
  put(reduction.unit, std::move(reduction.output));
}

void DataParallel::put(int unit, Gradient gradient) {
  gradient =
      convert(std::move(gradient), options_.dtypes.parameters, {BufferKind::kConvertedShard, unit});
  streams_.block(StreamId::kCompute, gradient.ready);
  store_.put_gradient(unit, std::move(gradient));
}

void DataParallel::finish_backward() {
  finish_reduce_scatter();
  while (!all_reduces_.empty()) finish_oldest_all_reduce();
  free_released();
}

}  // namespace fsdp
