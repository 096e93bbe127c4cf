#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "trainer/comm/process_group.h"

namespace fsdp {

// L2 norms of parts of `gradients`, 0-dimensional, fp32, that together are all of them. `device`:
// where they are, or on meta would be.
std::vector<at::Tensor> norms_of_parts(const std::vector<at::Tensor>& gradients,
                                       c10::DeviceType device);

// The global L2 norm of gradients, 0-dimensional, fp32, on `device`, from the norms of this rank's
// parts: their squares summed in fp32 over the shards, with one all-reduce. `shard_group` is null
// when every rank holds the whole gradient; `device` is where the group communicates.
at::Tensor global_norm_of(const std::vector<at::Tensor>& norms, ProcessGroup* shard_group,
                          at::Device device);

// What gradients of norm `norm` are divided by so that their norm is at most `max_norm`, as
// torch.nn.utils.clip_grad_norm_ does; it stays on the device.
at::Tensor clip_divisor(const at::Tensor& norm, double max_norm);

}  // namespace fsdp
