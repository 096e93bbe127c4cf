// Exchanges parts by reading other ranks' memory. No rank goes on before all have read its parts.
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <string>
#include <system_error>

#include "trainer/comm/part_exchange.h"
#include "trainer/comm/sum_in_order.h"

namespace fsdp {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;    // stays in a core's cache between read and sum
constexpr int64_t kSmallestBytes = 64 << 10;  // a read takes two rounds of messages

// Copies from another process's memory; returns false and sets errno if that is not possible.
bool read_memory(pid_t process, uint64_t address, std::byte* to, int64_t bytes) {
  while (bytes > 0) {
    const iovec local{to, static_cast<size_t>(bytes)};
    const iovec remote{reinterpret_cast<void*>(address), static_cast<size_t>(bytes)};
    const ssize_t count = process_vm_readv(process, &local, 1, &remote, 1, 0);
    if (count == 0) errno = EIO;
    if (count <= 0) return false;
    to += count;
    address += static_cast<uint64_t>(count);
    bytes -= count;
  }
  return true;
}

uint64_t address_of(const void* data) { return reinterpret_cast<uint64_t>(data); }

class HostExchange : public PartExchange {
 public:
  HostExchange(c10::intrusive_ptr<c10d::Backend> backend, std::chrono::milliseconds timeout)
      : rank_(backend->getRank()),
        size_(backend->getSize()),
        messages_(make_message_exchange(std::move(backend), timeout)),
        scratch_((size_ - 1) * kChunkBytes) {
    can_read_all_ = can_read_every_other();
  }

  void exchange(const Parts& output) override {
    if (!is_read(output)) return messages_->exchange(output);
    const std::vector<uint64_t> addresses = gathered(address_of(output.data));
    for (int step = 1; step < size_; ++step) {
      const int from = (rank_ + step) % size_;  // ranks start at different sources
      read(from, addresses[from] + output.begin[from], output.at(from), output.size(from));
    }
    gathered(0);  // waits until all ranks have read
  }

  void sum(const Parts& input, std::byte* out, at::ScalarType dtype) override {
    if (!is_read(input)) return messages_->sum(input, out, dtype);
    const std::vector<uint64_t> addresses = gathered(address_of(input.data));
    std::vector<const std::byte*> sources(size_);
    for (int64_t begin = 0; begin < input.size(rank_); begin += kChunkBytes) {
      const int64_t bytes = std::min(kChunkBytes, input.size(rank_) - begin);
      std::byte* slot = scratch_.data();
      for (int r = 0; r < size_; ++r) {
        if (r == rank_) {
          sources[r] = input.at(r) + begin;
          continue;
        }
        read(r, addresses[r] + input.begin[rank_] + begin, slot, bytes);
        sources[r] = slot;
        slot += kChunkBytes;
      }
      sum_in_order(dtype, sources, out + begin, bytes);
    }
    gathered(0);
  }

 private:
  bool is_read(const Parts& parts) const {
    return can_read_all_ && parts.bytes() >= kSmallestBytes;
  }

  // Returns one number from every rank; no rank returns before all have called it.
  std::vector<uint64_t> gathered(uint64_t own) {
    std::vector<uint64_t> numbers(size_);
    numbers[rank_] = own;
    Parts parts{reinterpret_cast<std::byte*>(numbers.data()), {}};
    for (int r = 0; r <= size_; ++r) parts.begin.push_back(r * int64_t{sizeof(uint64_t)});
    messages_->exchange(parts);
    return numbers;
  }

  // True if every rank can read a random number from each other rank's memory. A container may hide
  // a process or give its id to another one, and the system may forbid to read.
  bool can_read_every_other() {
    // With Yama, other processes can read this one only if it allows them. Allows any process: the
    // permission for one ancestor and its descendants would end with the ancestor.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    const uint64_t secret = std::random_device()() | uint64_t{std::random_device()()} << 32;
    processes_ = gathered(static_cast<uint64_t>(getpid()));
    const std::vector<uint64_t> addresses = gathered(address_of(&secret));
    const std::vector<uint64_t> secrets = gathered(secret);
    bool can_read = true;
    for (int r = 0; r < size_; ++r) {
      uint64_t found = 0;
      can_read &= read_memory(static_cast<pid_t>(processes_[r]), addresses[r],
                              reinterpret_cast<std::byte*>(&found), sizeof(found)) &&
                  found == secrets[r];
    }
    const std::vector<uint64_t> answers = gathered(can_read);
    return std::count(answers.begin(), answers.end(), 1) == size_;
  }

  void read(int from, uint64_t address, std::byte* to, int64_t bytes) {
    if (read_memory(static_cast<pid_t>(processes_[from]), address, to, bytes)) return;
    throw std::system_error(errno, std::system_category(),
                            "the memory of rank " + std::to_string(from) + " could not be read");
  }

  int rank_;
  int size_;
  std::unique_ptr<PartExchange> messages_;
  std::vector<std::byte> scratch_;  // a chunk for every other rank
  std::vector<uint64_t> processes_;
  bool can_read_all_ = false;
};

}  // namespace

std::unique_ptr<PartExchange> make_host_exchange(c10::intrusive_ptr<c10d::Backend> backend,
                                                 std::chrono::milliseconds timeout) {
  return std::make_unique<HostExchange>(std::move(backend), timeout);
}

}  // namespace fsdp
