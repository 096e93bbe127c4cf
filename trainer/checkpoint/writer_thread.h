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

  // They are allocated on first use. To register them with CUDA takes time, so threads of one
  // checkpoint after another share them.
  using HostBuffers = std::array<at::Tensor, kBuffers>;

  explicit WriterThread(const Backend& backend, int64_t buffer_bytes = kBufferBytes,
                        std::shared_ptr<HostBuffers> buffers = std::make_shared<HostBuffers>());

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
  const Backend& backend_;
  int64_t buffer_bytes_;
  std::shared_ptr<HostBuffers> buffers_;
  std::array<std::shared_future<void>, kBuffers> written_;  // by buffer
  size_t next_ = 0;
  std::shared_future<void> last_;
  Worker worker_;
};

}  // namespace fsdp
