// Places a unit's parameters in one buffer that divides evenly over the ranks.
#include "trainer/strategy/flat_layout.h"

#include <algorithm>
#include <numeric>

namespace fsdp {
namespace {

constexpr int64_t kAlignmentBytes = 64;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

FlatLayout::FlatLayout(const std::vector<ParameterPtr>& parameters, int64_t item_bytes,
                       int64_t shard_count, int64_t block)
    : shard_count_(shard_count) {
  const int64_t alignment = std::max(kAlignmentBytes / item_bytes, block);
  for (const ParameterPtr& parameter : parameters) {
    slots_.push_back({parameter, numel_});
    numel_ += round_up(parameter->stored_numel(), alignment);
  }
  numel_ = round_up(numel_, alignment * shard_count);
}

at::Tensor FlatLayout::view(const Slot& slot, const at::Tensor& flat) const {
  if (!flat.defined()) return {};
  return flat.narrow(0, slot.offset, slot.parameter->stored_numel())
      .view(slot.parameter->stored_shape());
}

void FlatLayout::bind_values(const at::Tensor& flat) const {
  for (const Slot& slot : slots_) slot.parameter->value = view(slot, flat);
}

void FlatLayout::bind_gradients(const at::Tensor& flat) const {
  for (const Slot& slot : slots_) slot.parameter->gradient = {.tensor = view(slot, flat)};
}

bool FlatLayout::is_gradient_complete() const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.parameter->gradient.is_written; });
}

void FlatLayout::zero_gaps(const at::Tensor& flat) const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const int64_t end = slots_[i].offset + slots_[i].parameter->stored_numel();
    const int64_t next = i + 1 < slots_.size() ? slots_[i + 1].offset : numel_;
    if (next > end) flat.narrow(0, end, next - end).zero_();
  }
}

}  // namespace fsdp
