#pragma once

#include <functional>
#include <utility>

namespace fsdp {

// A collective operation on its way.
//
// On CPU it completes in the background, and wait() blocks the calling thread until it has. On CUDA
// it is ordered on the stream that was current when it was issued, and wait() does nothing.
// The operation keeps its tensors alive until it is complete; the caller must not write what it
// reads, nor touch what it writes, before wait() has returned.
class Pending {
 public:
  Pending() = default;  // nothing to wait for
  explicit Pending(std::function<void()> wait) : wait_(std::move(wait)) {}
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&&) noexcept = default;

  // Throws CommunicationError. A second call does nothing.
  void wait() {
    if (auto wait = std::exchange(wait_, nullptr)) wait();
  }

 private:
  std::function<void()> wait_;
};

}  // namespace fsdp
