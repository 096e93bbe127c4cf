#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "trainer/model/model.h"

namespace fsdp {

// The places of a unit's parameters in its flat, one-dimensional buffer. Each parameter begins at a
// multiple of 64 bytes (for aligned vector and tensor-core loads) and of `block` elements, a power
// of two. The buffer divides evenly over the ranks, into whole blocks. Gaps hold zeros.
class FlatLayout {
 public:
  FlatLayout(const std::vector<ParameterPtr>& parameters, int64_t item_bytes, int64_t shard_count,
             int64_t block = 1);

  int64_t numel() const { return numel_; }
  int64_t shard_numel() const { return numel_ / shard_count_; }

  // Calls visit(parameter, its part of `flat` [numel] in its stored shape) for every parameter.
  template <typename Visit>
  void for_each(const at::Tensor& flat, Visit&& visit) const {
    for (const Slot& slot : slots_) visit(*slot.parameter, view(slot, flat));
  }

  // Makes every Parameter::value a view of `flat` [numel], or undefined if `flat` is undefined.
  void bind_values(const at::Tensor& flat) const;
  // Makes every Parameter::gradient a view of `flat`, without writing anything.
  void bind_gradients(const at::Tensor& flat) const;
  // True if backward wrote every gradient.
  bool is_gradient_complete() const;
  void zero_gaps(const at::Tensor& flat) const;

  // Calls visit(parameter, first, part) for every parameter with elements in `shard` [shard_numel],
  // the part of rank `shard_index`. `part` is a view of these elements in `shard`; `first` is the
  // number of the first one in the parameter.
  template <typename Visit>
  void for_each_part(const at::Tensor& shard, int64_t shard_index, Visit&& visit) const {
    const int64_t begin = shard_index * shard_numel();
    for (const Slot& slot : slots_) {
      const int64_t first = std::max(begin, slot.offset);
      const int64_t last =
          std::min(begin + shard_numel(), slot.offset + slot.parameter->stored_numel());
      if (first >= last) continue;
      visit(*slot.parameter, first - slot.offset, shard.narrow(0, first - begin, last - first));
    }
  }

 private:
  struct Slot {
    ParameterPtr parameter;
    int64_t offset;
  };
  at::Tensor view(const Slot& slot, const at::Tensor& flat) const;

  std::vector<Slot> slots_;
  int64_t shard_count_;
  int64_t numel_ = 0;
};

}  // namespace fsdp
