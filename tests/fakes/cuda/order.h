#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Vector clocks of a GPU's streams. Work is done at once here. An access of memory must wait for
// the last one on another stream, by an event or on the host. Otherwise it is too early. Registered
// host memory counts too, as copies read and write it.
namespace fsdp::fake_cuda {

// The amount of each stream's work that has been waited for, by the stream's number.
using Clock = std::vector<uint64_t>;

void merge(Clock& clock, const Clock& other);

// The work that the calling thread has waited for.
Clock& host_clock();

struct Access {
  const void* begin;
  size_t bytes;
  bool is_write;
};

// Issues an operation to `stream`. Adds to hazards().
void issue(cudaStream_t stream, const std::string& operation, const std::vector<Access>& accesses);
// Runs an operation of the calling thread on the host. Adds to hazards().
void run_on_host(const std::string& operation, const std::vector<Access>& accesses);
// Releases host memory on the calling thread.
void let_go(const void* begin, size_t bytes);

// "mul on stream 2 has not waited for copy_ on stream 0", or ranks that differ in collectives; each
// once.
std::vector<std::string> hazards();
void forget_hazards();

// From a stream to its waiting stream. take_waits(): the program's waits since the last call.
using Wait = std::pair<int, int>;
std::set<Wait> take_waits();
// Skips these waits from now on, as if the program had left them out.
void leave_out(std::optional<Wait> wait);

// Issues every operation of libtorch (order_observer.cpp). Hazards end the program unless it
// `collects` them.
void watch_order(bool collects);

}  // namespace fsdp::fake_cuda
