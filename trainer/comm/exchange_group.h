#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "trainer/comm/membership.h"
#include "trainer/comm/part_exchange.h"
#include "trainer/comm/process_group.h"

namespace fsdp {

// Runs collectives on the CPU by a PartExchange: every rank exchanges parts with every other.
//
// gloo's own reduce-scatter all-reduces a copy of the whole input, and rounds bfloat16 sums after
// every addition. Here each part is sent once, and bfloat16 sums are fp32. Operations run one after
// another on a thread of the group. Nothing is allocated through libtorch's allocator.
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
  bool is_left(const std::string& key) override;
  std::string take(const std::string& key) override;
  std::unique_ptr<ProcessGroup> subgroup(const std::string& name,
                                         const std::vector<int>& ranks) override;

 private:
  struct Operation {
    CommunicationClock::Label label;
    std::function<void()> run;
    std::promise<void> done;
  };
  Pending submit(const CommunicationClock::Label& label, std::function<void()> run);
  void work();

  Membership membership_;
  std::unique_ptr<PartExchange> parts_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Operation> queue_;
  bool stopping_ = false;
  std::string failure_;  // of the first operation that failed; used only by the thread
  std::thread thread_;
};

}  // namespace fsdp
