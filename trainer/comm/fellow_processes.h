#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace fsdp {

// The processes of a run's ranks on this host. The system tells which of them is gone: a rank that
// is killed says nothing itself, and NCCL's kernels wait for it for ever.
class FellowProcesses {
 public:
  FellowProcesses();
  ~FellowProcesses();
  FellowProcesses(const FellowProcesses&) = delete;
  FellowProcesses& operator=(const FellowProcesses&) = delete;

  // Says in `store` that `process`, of this host, is that rank.
  void join(c10d::Store& store, int rank, pid_t process = getpid());
  // Learns of the ranks that have joined since the last call; this process itself is not a fellow.
  void meet(c10d::Store& store);
  // A rank of those met whose process is gone. Waits for that as long as `patience`.
  std::optional<int> find_gone(std::chrono::milliseconds patience) const;

 private:
  struct Fellow {
    int rank;
    int descriptor;  // of the process; -1: it was gone already
  };
  std::string key_;  // of the ranks of this host
  int64_t met_ = 0;
  std::vector<Fellow> fellows_;
};

}  // namespace fsdp
