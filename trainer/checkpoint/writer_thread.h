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

// A thread that writes to files. What a device holds reaches it through a ring of host buffers, so
// that copying and writing overlap.
class WriterThread {
 public:
  static constexpr int64_t kBufferBytes = 16 << 20;
  static constexpr size_t kBuffers = 4;

  // The buffers are allocated when they are first needed.
  explicit WriterThread(const Backend& backend, int64_t buffer_bytes = kBufferBytes);

  // Writes a contiguous tensor at `offset` of `file`. Returns when the tensor may change. A tensor
  // on the host is written by the calling thread, after what the thread has to do. Throws what a
  // task has thrown.
  void write(const OutputFilePtr& file, int64_t offset, const at::Tensor& tensor);
  // The same through the ring, wherever the tensor is.
  void write_through_ring(const OutputFilePtr& file, int64_t offset, const at::Tensor& tensor);

  // See Worker.
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
