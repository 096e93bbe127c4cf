#pragma once

#include <c10/core/ScalarType.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

// How bytes get from rank to rank in collectives on the CPU. Internal to comm.
namespace fsdp {

// A buffer cut into one part per rank: part r is bytes [begin[r], begin[r + 1]); cut alike on every
// rank.
struct Parts {
  std::byte* data;
  std::vector<int64_t> begin;

  std::byte* at(int rank) const { return data + begin[rank]; }
  int64_t size(int rank) const { return begin[rank + 1] - begin[rank]; }
  int64_t bytes() const { return begin.back(); }
};

// Called by all ranks in the same order, from one thread each; returns when this rank's buffers are
// no longer read. Throws when another rank is gone.
class PartExchange {
 public:
  virtual ~PartExchange() = default;

  // In `output`, every part but this rank's is filled from its rank.
  virtual void exchange(const Parts& output) = 0;
  // out = the sum over ranks, in their order, of their `input`'s part for this rank; `out` may be
  // that part.
  virtual void sum(const Parts& input, std::byte* out, at::ScalarType dtype) = 0;
};

// By messages over the backend, with a fixed scratch of a few MiB. A message may take `timeout`:
// gloo's own is that of its connections, whatever Backend::setTimeout() says.
std::unique_ptr<PartExchange> make_message_exchange(c10::intrusive_ptr<c10d::Backend> backend,
                                                    std::chrono::milliseconds timeout);

// For ranks of one host: each reads the others' memory, where the system lets every one of them;
// otherwise, and for what is small, by messages.
std::unique_ptr<PartExchange> make_host_exchange(c10::intrusive_ptr<c10d::Backend> backend,
                                                 std::chrono::milliseconds timeout);

}  // namespace fsdp
