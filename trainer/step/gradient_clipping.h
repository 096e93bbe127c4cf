#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Returns the L2 norms (0-dimensional, fp32) of parts that together make up `gradients`. `device`
// is the gradients' device, or the planned one if they are on meta.
std::vector<at::Tensor> norms_of_parts(const std::vector<at::Tensor>& gradients,
                                       c10::DeviceType device);

// Returns the global L2 norm of gradients, 0-dimensional, fp32, on `device`, from the norms of this
// rank's parts. Sums their squares in fp32 over the shards with one all-reduce. `shard_group` is
// null if every rank holds the whole gradient. `device` is the device of the group.
at::Tensor global_norm_of(const std::vector<at::Tensor>& norms, ProcessGroup* shard_group,
                          at::Device device);

// Returns the divisor that limits gradients of norm `norm` to `max_norm`, as
// torch.nn.utils.clip_grad_norm_ does. It stays on the device.
at::Tensor clip_divisor(const at::Tensor& norm, double max_norm);

}  // namespace fsdp
