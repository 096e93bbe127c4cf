#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace fsdp {

// The processes of a run's ranks on this host. The system reports which of them is gone. A killed
// rank cannot report itself, and NCCL's kernels wait for it forever.
class FellowProcesses {
 public:
  FellowProcesses();
  ~FellowProcesses();
  FellowProcesses(const FellowProcesses&) = delete;
  FellowProcesses& operator=(const FellowProcesses&) = delete;

  // Registers `process`, of this host, as that rank in `store`.
  void join(c10d::Store& store, int rank, pid_t process = getpid());
  // Learns of the ranks that have joined since the last call, except this process itself.
  void meet(c10d::Store& store);
  // Returns a met rank whose process is gone. Waits up to `patience` for one.
  std::optional<int> find_gone(std::chrono::milliseconds patience) const;

 private:
  struct Fellow {
    int rank;
    int descriptor;  // of the process; -1: it was already gone
  };
  std::string key_;  // for the ranks of this host
  int64_t met_ = 0;
  std::vector<Fellow> fellows_;
};

}  // namespace fsdp
