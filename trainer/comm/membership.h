#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "trainer/comm/communication_clock.h"
#include "trainer/comm/watchdog.h"

namespace fsdp {

// Which ranks of the run a group has, and what they meet through. Internal to comm.
struct Membership {
  int rank = 0;            // in the group
  std::vector<int> ranks;  // the group's, as the run counts them
  int world_size = 1;
  std::string name;  // of the group; empty for all ranks
  bool single_host = true;
  int ranks_per_host = 1;
  std::string master_address;             // on several hosts the way to it is the way to the others
  c10::intrusive_ptr<c10d::Store> store;  // of these ranks alone
  // After which a transport gives up by itself; later than the watchdog, if that does something.
  std::chrono::milliseconds transport_timeout{};
  std::shared_ptr<Watchdog> watchdog;
  std::shared_ptr<CommunicationClock> clock = std::make_shared<CommunicationClock>();
  int agreements = 0;
  int subgroups = 0;

  int size() const { return static_cast<int>(ranks.size()); }
  // If every host has as many ranks, which follow each other.
  bool spans_hosts() const {
    return ranks.front() / ranks_per_host != ranks.back() / ranks_per_host;
  }

  // Rank 0's `value` on every rank.
  std::string agree(const std::string& key, const std::string& value);
  // Leaves `value` for rank 0 to take, once.
  void leave(const std::string& key, const std::string& value);
  bool is_left(const std::string& key);
  std::string take(const std::string& key);
  // Of `group_ranks`, which count in this group.
  Membership subgroup(const std::string& group_name, const std::vector<int>& group_ranks);

  [[nodiscard]] Watchdog::Watched watch(const std::string& operation, int unit) const;
  // "all_gather of unit 3 on rank 1 of 4"; of a subgroup also its name and ranks
  std::string describe(const std::string& operation, int unit) const;
  // "all_gather of unit 3 failed on rank 1 of 4: <cause>; ..."
  std::string describe_failure(const std::string& operation, int unit,
                               const std::exception& cause) const;

 private:
  std::string place() const;
};

// The first line of what went wrong, without libtorch's backtrace.
std::string cause_text(const std::exception& error);

}  // namespace fsdp
