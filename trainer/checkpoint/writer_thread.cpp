// Writes tensors through a ring of buffers on a thread. The caller may change a tensor afterwards.
#include "trainer/checkpoint/writer_thread.h"

#include <algorithm>
#include <utility>

#include "trainer/checkpoint/stored_dtype.h"

namespace fsdp {

WriterThread::WriterThread(const Backend& backend, int64_t buffer_bytes,
                           std::shared_ptr<HostBuffers> buffers)
    : backend_(backend), buffer_bytes_(buffer_bytes), buffers_(std::move(buffers)) {}

void WriterThread::write(const OutputFilePtr& file, int64_t offset, const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return write_through_ring(file, offset, tensor);
  if (!worker_.is_current() && last_.valid()) last_.get();
  file->write(offset, bytes_of_tensor(tensor));
}

void WriterThread::write_through_ring(const OutputFilePtr& file, int64_t offset,
                                      const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.view({-1}).view(at::kByte);
  for (int64_t begin = 0; begin < bytes.numel(); begin += buffer_bytes_) {
    const size_t slot = next_++ % kBuffers;
    if (written_[slot].valid()) written_[slot].get();
    at::Tensor& buffer = (*buffers_)[slot];
    if (!buffer.defined()) buffer = backend_.empty_host(buffer_bytes_, at::kByte);
    const int64_t size = std::min(buffer_bytes_, bytes.numel() - begin);
    const at::Tensor copy = buffer.narrow(0, 0, size);
    copy.copy_(bytes.narrow(0, begin, size));
    written_[slot] =
        post([file, place = offset + begin, copy] { file->write(place, bytes_of_tensor(copy)); });
  }
}

std::shared_future<void> WriterThread::post(std::function<void()> task) {
  return last_ = worker_.post(std::move(task));
}

}  // namespace fsdp
