// Exchanges parts by messages of gloo. A sum receives the next chunk while it adds the last one.
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>

#include "trainer/comm/part_exchange.h"
#include "trainer/comm/sum_in_order.h"

namespace fsdp {
namespace {

constexpr int64_t kScratchBytes = 4 << 20;
constexpr int64_t kSmallestChunkBytes = 64 << 10;
constexpr int64_t kLargestChunkBytes = 1 << 20;
constexpr int kTag = 0;

using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

int64_t chunk_bytes_for(int ranks) {
  const int64_t share = kScratchBytes / (2 * (ranks - 1));
  return std::clamp(share, kSmallestChunkBytes, kLargestChunkBytes) / 64 * 64;
}

class MessageExchange : public PartExchange {
 public:
  MessageExchange(c10::intrusive_ptr<c10d::Backend> backend, std::chrono::milliseconds timeout)
      : backend_(std::move(backend)),
        timeout_(timeout),
        chunk_bytes_(chunk_bytes_for(size())),
        scratch_(2 * (size() - 1) * chunk_bytes_) {}

  void exchange(const Parts& output) override {
    Works works;
    for (int step = 1; step < size(); ++step) {
      receive(output.at(before(step)), output.size(before(step)), before(step), works);
    }
    for (int step = 1; step < size(); ++step) {
      send(output.at(rank()), output.size(rank()), after(step), works);
    }
    wait_all(works);
  }

  void sum(const Parts& input, std::byte* out, at::ScalarType dtype) override {
    const int64_t own_bytes = input.size(rank());
    const int64_t chunks = (own_bytes + chunk_bytes_ - 1) / chunk_bytes_;
    const auto length = [&](int64_t chunk) {
      return std::min(chunk_bytes_, own_bytes - chunk * chunk_bytes_);
    };
    std::array<Works, 2> received;
    const auto receive_chunk = [&](int64_t chunk) {
      if (chunk >= chunks) return;
      for (int step = 1; step < size(); ++step) {
        receive(slot(chunk, before(step)), length(chunk), before(step), received[chunk % 2]);
      }
    };

    receive_chunk(0);
    Works sent = send_parts(input);
    std::vector<const std::byte*> sources(size());
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      receive_chunk(chunk + 1);
      wait_all(received[chunk % 2]);
      for (int r = 0; r < size(); ++r) {
        sources[r] = r == rank() ? input.at(r) + chunk * chunk_bytes_ : slot(chunk, r);
      }
      sum_in_order(dtype, sources, out + chunk * chunk_bytes_, length(chunk));
    }
    wait_all(sent);
  }

 private:
  int rank() const { return backend_->getRank(); }
  int size() const { return backend_->getSize(); }
  // Returns the rank that is `step` places after (or before) this one in the ring.
  int after(int step) const { return (rank() + step) % size(); }
  int before(int step) const { return (rank() + size() - step) % size(); }

  // Returns where a chunk from a rank is received; every other rank has two slots.
  std::byte* slot(int64_t chunk, int from) {
    const int64_t other = from < rank() ? from : from - 1;
    return scratch_.data() + (chunk % 2 * (size() - 1) + other) * chunk_bytes_;
  }

  Works send_parts(const Parts& input) {
    Works sent;
    int64_t largest = 0;
    for (int r = 0; r < size(); ++r) largest = std::max(largest, input.size(r));
    for (int64_t begin = 0; begin < largest; begin += chunk_bytes_) {
      for (int step = 1; step < size(); ++step) {
        const int to = after(step);
        send(input.at(to) + begin, std::min(chunk_bytes_, input.size(to) - begin), to, sent);
      }
    }
    return sent;
  }

  void wait_all(Works& works) const {
    for (const auto& work : works) TORCH_CHECK(work->wait(timeout_), "the operation was aborted");
    works.clear();
  }

  void send(std::byte* data, int64_t bytes, int to, Works& works) {
    if (bytes <= 0) return;
    std::vector<at::Tensor> message{at::from_blob(data, {bytes}, at::kByte)};
    works.push_back(backend_->send(message, to, kTag));
  }
  void receive(std::byte* data, int64_t bytes, int from, Works& works) {
    if (bytes <= 0) return;
    std::vector<at::Tensor> message{at::from_blob(data, {bytes}, at::kByte)};
    works.push_back(backend_->recv(message, from, kTag));
  }

  c10::intrusive_ptr<c10d::Backend> backend_;
  std::chrono::milliseconds timeout_;
  int64_t chunk_bytes_;
  std::vector<std::byte> scratch_;
};

}  // namespace

std::unique_ptr<PartExchange> make_message_exchange(c10::intrusive_ptr<c10d::Backend> backend,
                                                    std::chrono::milliseconds timeout) {
  return std::make_unique<MessageExchange>(std::move(backend), timeout);
}

}  // namespace fsdp
