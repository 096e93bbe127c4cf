// Lets replicas read equal parts of weights and exchange them. Each reads small parameters itself.
#include "trainer/train/read_once.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/system/start_up.h"

namespace fsdp {
namespace {

// The number of elements exchanged at a time, which a GPU must hold in addition.
constexpr int64_t kMostExchanged = 1 << 24;
// Below this number of elements, every rank reads all of them.
constexpr int64_t kLeastExchanged = 1 << 16;

// Completes `whole` [replicas.size() * n] in host memory, which at first holds only this rank's
// part.
void exchange(const at::Tensor& whole, ProcessGroup& replicas, at::Device device) {
  const int64_t share = whole.numel() / replicas.size();
  const auto own_part = [&](const at::Tensor& tensor) {
    return tensor.narrow(0, replicas.rank() * share, share);
  };
  pause_start_up();  // communication.timeout_s limits the wait
  if (device.is_cpu()) {
    replicas.all_gather(whole, own_part(whole)).wait();
    return;
  }
  const at::Tensor on_device = at::empty(whole.sizes(), whole.options().device(device));
  own_part(on_device).copy_(own_part(whole));
  replicas.all_gather(on_device, own_part(on_device)).wait();
  whole.copy_(on_device);
}

}  // namespace

FillParameter read_once(FillParameter fill, ProcessGroup& replicas, at::Device device) {
  if (replicas.size() == 1) return fill;
  return [fill = std::move(fill), &replicas, device](const Parameter& parameter, int64_t offset,
                                                     const at::Tensor& out) {
    for (int64_t done = 0; done < out.numel(); done += kMostExchanged) {
      const int64_t count = std::min(kMostExchanged, out.numel() - done);
      const int64_t share = count < kLeastExchanged ? 0 : count / replicas.size();
      if (share > 0) {
        const int64_t begin = done + replicas.rank() * share;
        fill(parameter, offset + begin, out.narrow(0, begin, share));
        exchange(out.narrow(0, done, share * replicas.size()), replicas, device);
      }
      const int64_t rest = count - share * replicas.size();
      if (rest > 0) {
        const int64_t begin = done + count - rest;
        fill(parameter, offset + begin, out.narrow(0, begin, rest));
      }
    }
  };
}

}  // namespace fsdp
