#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/backend/worker.h"
#include "trainer/checkpoint/output_file.h"

namespace fsdp {

using OutputFilePtr = std::shared_ptr<OutputFile>;

// A thread that writes to files. Data on a device go through a ring of host buffers, so copying and
// writing overlap.
class WriterThread {
 public:
  static constexpr int64_t kBufferBytes = 16 << 20;
  static constexpr size_t kBuffers = 4;

  // The buffers are allocated on first use.
  explicit WriterThread(const Backend& backend, int64_t buffer_bytes = kBufferBytes);

  // Writes a contiguous tensor at `offset` of `file`. Returns when the tensor may change. If the
  // tensor is on the host, the calling thread waits for the earlier tasks and writes the tensor
  // itself. Rethrows the exception of an earlier task. A task may call this for a tensor on the
  // host.
  void write(const OutputFilePtr& file, int64_t offset, const at::Tensor& tensor);
  // Does the same, but always through the ring.
  void write_through_ring(const OutputFilePtr& file, int64_t offset, const at::Tensor& tensor);

  // See Worker::post.
  std::shared_future<void> post(std::function<void()> task);

 private:
  struct Slot {
    at::Tensor bytes;
    std::shared_future<void> written;
  };

  const Backend& backend_;
  int64_t buffer_bytes_;
  std::array<Slot, kBuffers> ring_;
  size_t next_ = 0;
  std::shared_future<void> last_;
  Worker worker_;
};

}  // namespace fsdp
