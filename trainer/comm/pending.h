#pragma once

#include <functional>
#include <utility>

namespace fsdp {

// A collective operation in progress.
//
// On the CPU it completes in the background, and wait() blocks the calling thread until then. On
// CUDA it is ordered on the stream that was current when it was issued, and wait() does nothing.
// The operation keeps its tensors alive until it is complete. Before wait() has returned, the
// caller must not write its inputs or touch its outputs.
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
