#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/process_group.h"

namespace fsdp {

// Imitates a group in one process, as if every rank had the same shard and the same gradient. It
// allocates nothing, because real groups allocate nothing through libtorch.
class MirrorGroup : public ProcessGroup {
 public:
  explicit MirrorGroup(int size, int rank = 0) : ProcessGroup(rank, size) {}
  Pending all_gather(at::Tensor output, at::Tensor shard, int) override {
    output.view({size(), -1}).copy_(shard.expand({size(), -1}));
    return {};
  }
  Pending reduce_scatter(at::Tensor shard, at::Tensor input, int) override {
    shard.copy_(input.narrow(0, 0, shard.numel())).mul_(size());
    return {};
  }
  Pending all_reduce(at::Tensor tensor, int) override {
    tensor.mul_(size());
    return {};
  }
  void barrier() override {}
  std::string agree(const std::string&, const std::string& value) override { return value; }
  void leave(const std::string&, const std::string&) override {}
  bool is_left(const std::string&) override { return true; }
  std::string take(const std::string&) override { return ""; }
  std::unique_ptr<ProcessGroup> subgroup(const std::string&,
                                         const std::vector<int>& ranks) override {
    return std::make_unique<MirrorGroup>(static_cast<int>(ranks.size()));
  }
};

}  // namespace fsdp
