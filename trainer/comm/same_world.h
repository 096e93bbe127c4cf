#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/comm/environment.h"

namespace fsdp {

// Waits until as many processes have come to `store` as this start has ranks. Throws ConfigError on
// every rank if two of them have the same rank, or differ in world size, kind of device, or being
// on a single host. Their transports would wait for each other. Throws ConfigError in a process
// that comes later. Throws std::exception if it takes longer than `timeout`.
void require_same_world(const WorldEnvironment& world, at::Device device, c10d::Store& store,
                        std::chrono::milliseconds timeout);

}  // namespace fsdp
