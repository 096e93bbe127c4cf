#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Vector clocks of the streams of a GPU. Work is done at once here. An access of memory is too
// early all the same if it has not waited for the last one on another stream, by an event or on the
// host. Registered memory of the host counts too, as copies read and write it.
namespace fsdp::fake_cuda {

// By stream's number, how much of that stream's work has been waited for.
using Clock = std::vector<uint64_t>;

void merge(Clock& clock, const Clock& other);

// The work that the calling thread has waited for.
Clock& host_clock();

struct Access {
  const void* begin;
  size_t bytes;
  bool is_write;
};

// An operation that is issued to `stream`. Adds to hazards().
void issue(cudaStream_t stream, const std::string& operation, const std::vector<Access>& accesses);
// An operation that the calling thread does on the host. Adds to hazards().
void run_on_host(const std::string& operation, const std::vector<Access>& accesses);
// The host lets memory go, on the calling thread.
void let_go(const void* begin, size_t bytes);

// "mul on stream 2 has not waited for copy_ on stream 0", or which ranks have called different
// collectives; each once.
std::vector<std::string> hazards();
void forget_hazards();

// From a stream to the one that waits for it. take_waits(): of the program, since the last call.
using Wait = std::pair<int, int>;
std::set<Wait> take_waits();
// From now on these are not done, as if the program had left them out.
void leave_out(std::optional<Wait> wait);

// Has every operation of libtorch issued (order_observer.cpp). Hazards end the program unless it
// `collects` them.
void watch_order(bool collects);

}  // namespace fsdp::fake_cuda
