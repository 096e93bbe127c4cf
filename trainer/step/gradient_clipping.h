#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "trainer/comm/process_group.h"

namespace fsdp {

// The global L2 norm of `gradients`, 0-dimensional, fp32, on `device`: sum of squares in fp32 over
// the shards, and one all-reduce. `shard_group` is null when every rank holds the whole gradient;
// `device` is where the group communicates.
at::Tensor gradient_norm_of(const std::vector<at::Tensor>& gradients, ProcessGroup* shard_group,
                            at::Device device);

// What gradients of norm `norm` are divided by so that their norm is at most `max_norm`, as
// torch.nn.utils.clip_grad_norm_ does; it stays on the device.
at::Tensor clip_divisor(const at::Tensor& norm, double max_norm);

}  // namespace fsdp
