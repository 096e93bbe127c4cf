#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/comm/process_group.h"

// The two transports, each made in the one file that includes its headers. Internal to comm.
namespace fsdp {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const WorldEnvironment& world,
                                                    std::chrono::milliseconds timeout);

// Only in a CUDA build. Makes `device` current.
std::unique_ptr<ProcessGroup> make_nccl_group(const c10::intrusive_ptr<c10d::Store>& store,
                                              const WorldEnvironment& world, at::Device device,
                                              std::chrono::milliseconds timeout);

// Rank 0's `value` on every rank; `key` is used once.
std::string agree_through(c10d::Store& store, int rank, const std::string& key,
                          const std::string& value);

// "all_gather failed on rank 1 of 4: <cause>; ..."
std::string describe_failure(const std::string& operation, const ProcessGroup& group,
                             const std::exception& cause);

}  // namespace fsdp
