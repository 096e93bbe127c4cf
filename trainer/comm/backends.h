#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "trainer/comm/membership.h"
#include "trainer/comm/process_group.h"

// The two transports. Each is made in the one file that includes its headers. Internal to comm.
namespace fsdp {

// Connects every rank to every other; fails if that takes longer than `connect_timeout`.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Membership& membership,
                                                    std::chrono::milliseconds connect_timeout);

// Only in a CUDA build. Makes `device` current. Connects at the first operation.
std::unique_ptr<ProcessGroup> make_nccl_group(Membership membership, at::Device device);

// Returns the group of a single rank, which does not communicate.
std::unique_ptr<ProcessGroup> make_single_rank_group();

}  // namespace fsdp
