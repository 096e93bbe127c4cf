#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/comm/communication_clock.h"
#include "trainer/comm/watchdog.h"

namespace fsdp {

// The ranks of a group, and the means by which they meet. Internal to comm.
struct Membership {
  int rank = 0;            // in the group
  std::vector<int> ranks;  // the group's ranks, as numbered in the run
  int world_size = 1;
  std::string name;  // of the group; empty for all ranks
  bool single_host = true;
  int ranks_per_host = 1;
  std::string master_address;             // on several hosts, gloo uses the route to this address
  c10::intrusive_ptr<c10d::Store> store;  // for these ranks only
  // The time after which a transport gives up. It exceeds the watchdog's timeout if the watchdog
  // reports.
  std::chrono::milliseconds transport_timeout{};
  std::shared_ptr<Watchdog> watchdog;
  std::shared_ptr<CommunicationClock> clock = std::make_shared<CommunicationClock>();
  int agreements = 0;
  int subgroups = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  // Assumes that every host has the same number of ranks, numbered consecutively.
  bool spans_hosts() const {
    return ranks.front() / ranks_per_host != ranks.back() / ranks_per_host;
  }

  // Returns rank 0's `value` on every rank.
  std::string agree(const std::string& key, const std::string& value);
  // Leaves `value` for rank 0, which takes it once.
  void leave(const std::string& key, const std::string& value);
  bool is_left(const std::string& key);
  std::string take(const std::string& key);
  // Returns the membership of `group_ranks`, which are numbered as in this group.
  Membership subgroup(const std::string& group_name, const std::vector<int>& group_ranks);

  [[nodiscard]] Watchdog::Watched watch(const std::string& operation, int unit) const;
  // Returns "all_gather of unit 3 on rank 1 of 4"; for a subgroup also its name and ranks.
  std::string describe(const std::string& operation, int unit) const;
  // Returns "all_gather of unit 3 failed on rank 1 of 4: <cause>; ...".
  std::string describe_failure(const std::string& operation, int unit,
                               const std::exception& cause) const;

 private:
  std::string place() const;
};

// Returns the first line of an error's cause, for NCCL all lines, without libtorch's backtrace.
std::string cause_text(const std::exception& error);

}  // namespace fsdp
