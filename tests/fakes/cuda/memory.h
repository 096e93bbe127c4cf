#pragma once

#include <cstddef>
#include <cstdint>

// The memory of fake GPUs, which the runtime's functions (memory.cpp) and the driver's
// (virtual_memory.cpp) share.
namespace fsdp::fake_cuda {

inline constexpr uint64_t kPageBytes = uint64_t{2} << 20;  // the driver's unit, as on every GPU

// Returns new addresses, in whole pages.
uint64_t take_addresses(size_t bytes);

// Takes memory, unless too little is free.
bool take_memory(size_t bytes);
void give_memory(size_t bytes);

// From now on, [address, address + bytes) is memory of `device`, or no memory any more.
void add_memory(uint64_t address, size_t bytes, int device);
void remove_memory(uint64_t address);

// Returns a function of the driver.
void* driver_function(const char* name);

}  // namespace fsdp::fake_cuda
