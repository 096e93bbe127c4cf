#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/comm/environment.h"

namespace fsdp {

// Returns the store at which the ranks of one start meet, once all have come to it and registered
// their processes there. Rank 0 serves it, unless the launcher does. Throws ConfigError on every
// rank if they are of different worlds (see same_world.h). Throws std::exception if it takes longer
// than `timeout`.
c10::intrusive_ptr<c10d::Store> meet_at_store(const WorldEnvironment& world, at::Device device,
                                              std::chrono::milliseconds timeout);

// True if the store is in this rank's process and ends with it.
bool serves_store(const WorldEnvironment& world);

// Returns the place of the store for a message: address and port or ports.
std::string meeting_place(const WorldEnvironment& world);

}  // namespace fsdp
