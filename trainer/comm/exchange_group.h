#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "trainer/comm/membership.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// Collectives over a backend's send and receive: every rank exchanges messages with every other.
//
// gloo's own reduce-scatter all-reduces a copy of the whole input; this one sends each part once
// and needs a fixed scratch of a few MiB. gloo's all-reduce is kept for dtypes other than bfloat16,
// which it would round after every addition. Operations run one after another on a thread of the
// group; nothing is allocated through libtorch's allocator.
class ExchangeGroup : public ProcessGroup {
 public:
  ExchangeGroup(Membership membership, c10::intrusive_ptr<c10d::Backend> backend);
  ~ExchangeGroup() override;

  Pending all_gather(at::Tensor output, at::Tensor shard, int unit) override;
  Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit) override;
  Pending all_reduce(at::Tensor tensor, int unit) override;
  void barrier() override;
  std::string agree(const std::string& key, const std::string& value) override;
  void leave(const std::string& key, const std::string& value) override;
  std::string take(const std::string& key) override;
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name,
                                         const std::vector<int>& ranks) override;

 private:
  struct Operation {
    const char* name;
    int unit;
    std::function<void()> run;
    std::promise<void> done;
  };
  // A buffer cut into one part per rank: part r is bytes [begin[r], begin[r + 1]).
  struct Parts {
    std::byte* data;
    std::vector<int64_t> begin;

    std::byte* at(int rank) const { return data + begin[rank]; }
    int64_t size(int rank) const { return begin[rank + 1] - begin[rank]; }
  };
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

  Pending submit(const char* name, int unit, std::function<void()> run);
  void work();
  // In `output`, every part but this rank's is received from its rank; this rank's is sent.
  void exchange_parts(const Parts& output);
  // out = the sum over ranks of their `input`'s part for this rank.
  void sum_parts(const Parts& input, std::byte* out, at::ScalarType dtype);

  void send(std::byte* data, int64_t bytes, int to, Works& works);
  void receive(std::byte* data, int64_t bytes, int from, Works& works);
  // The rank `step` places after (or before) this one, round the ring.
  int after(int step) const { return (rank() + step) % size(); }
  int before(int step) const { return (rank() + size() - step) % size(); }

  Membership membership_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  int64_t chunk_bytes_;
  std::vector<std::byte> scratch_;  // two chunks from every other rank

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Operation> queue_;
  bool stopping_ = false;
  std::string failure_;  // of the first operation that failed; only the thread touches it
  std::thread thread_;
};

}  // namespace fsdp
