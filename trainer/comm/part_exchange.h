#pragma once

#include <c10/core/ScalarType.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

// Moves the bytes of collectives on the CPU between ranks. Internal to comm.
namespace fsdp {

// A buffer cut into one part per rank, with the same cuts on every rank. Part r is bytes [begin[r],
// begin[r + 1]).
struct Parts {
  std::byte* data;
  std::vector<int64_t> begin;

  std::byte* at(int rank) const { return data + begin[rank]; }
  int64_t size(int rank) const { return begin[rank + 1] - begin[rank]; }
  int64_t bytes() const { return begin.back(); }
};

// Exchanges parts of buffers. All ranks call it in the same order, each from one thread. Calls
// return when this rank's buffers are no longer read. They throw if another rank is gone.
class PartExchange {
 public:
  virtual ~PartExchange() = default;

  // Fills part r of `output` from rank r, for every other rank r.
  virtual void exchange(const Parts& output) = 0;
  // Writes to `out` the sum, in rank order, of this rank's part of every rank's `input`. `out` may
  // be that part of this rank's `input`.
  virtual void sum(const Parts& input, std::byte* out, at::ScalarType dtype) = 0;
};

// Exchanges messages over the backend, with a fixed scratch of a few MiB. `timeout` limits each
// message. Without it, gloo would use the timeout for connecting, and ignore Backend::setTimeout().
std::unique_ptr<PartExchange> make_message_exchange(c10::intrusive_ptr<c10d::Backend> backend,
                                                    std::chrono::milliseconds timeout);

// Serves the ranks of one host. Each rank reads the others' memory if the system lets every rank do
// so. Otherwise, and for small buffers, it exchanges messages.
std::unique_ptr<PartExchange> make_host_exchange(c10::intrusive_ptr<c10d::Backend> backend,
                                                 std::chrono::milliseconds timeout);

}  // namespace fsdp
