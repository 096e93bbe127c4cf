#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Scales `gradients` in place so that their global L2 norm is at most `max_norm`, as
// torch.nn.utils.clip_grad_norm_ does: sum of squares in fp32 over the shards, one all-reduce, and
// a factor that stays on the device. `shard_group` is null when every rank holds the whole
// gradient; `device` is where the group communicates. Returns the norm before clipping,
// 0-dimensional, fp32, on `device`.
at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm,
                          ProcessGroup* shard_group, at::Device device);

}  // namespace fsdp
