#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Vector clocks of a GPU's streams. Work is done when it is issued. A read of memory must wait for
// the last write on another stream, by an event or on the host. A write must also wait for reads.
// An access without its wait is a hazard. Registered host memory counts, too, as copies use it.
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

// Returns each hazard once: "mul on stream 2 has not waited for copy_ on stream 0", or a collective
// that differs between ranks.
std::vector<std::string> hazards();
void forget_hazards();

// The awaited and the waiting stream.
using Wait = std::pair<int, int>;
// Returns the program's waits since the last call.
std::set<Wait> take_waits();
// Skips these waits from now on, as if the program had left them out.
void leave_out(std::optional<Wait> wait);

// From now on passes every operation of libtorch to issue() (order_observer.cpp). A hazard ends the
// program unless it `collects` them.
void watch_order(bool collects);

}  // namespace fsdp::fake_cuda
