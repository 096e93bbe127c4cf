#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/comm/environment.h"

namespace fsdp {

// The store through which the ranks of one start find each other, once all of them have come to it.
// Rank 0 serves it, but for a start whose launcher does. Throws ConfigError on every rank if they
// are of different worlds (see same_world.h), std::exception when that takes longer than `timeout`.
c10::intrusive_ptr<c10d::Store> meet_at_store(const WorldEnvironment& world, at::Device device,
                                              std::chrono::milliseconds timeout);

// True if the store is in this rank's process and ends with it.
bool serves_store(const WorldEnvironment& world);

// Where that is, for a message: address and port or ports.
std::string meeting_place(const WorldEnvironment& world);

}  // namespace fsdp
