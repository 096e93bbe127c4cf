#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace fsdp {

// Writes to `store` that `process`, of this host, is that rank.
void register_process(c10d::Store& store, int rank, pid_t process = getpid());

// The processes of a run's ranks on this host. The system reports which of them is gone. A killed
// rank cannot report itself, and NCCL's kernels wait for it forever.
class FellowProcesses {
 public:
  FellowProcesses() = default;
  ~FellowProcesses();
  FellowProcesses(const FellowProcesses&) = delete;
  FellowProcesses& operator=(const FellowProcesses&) = delete;

  // Learns of the registered processes, except this one. Call it once.
  void meet(c10d::Store& store);
  // Returns a met rank whose process is gone.
  std::optional<int> find_gone() const;
  // True if the process of `rank` was met and is gone. Waits up to `patience` for that.
  bool is_gone(int rank, std::chrono::milliseconds patience) const;

 private:
  struct Fellow {
    int rank;
    int descriptor;  // of the process; -1: it was already gone

    bool is_gone(std::chrono::milliseconds patience) const;
  };
  std::vector<Fellow> fellows_;
};

}  // namespace fsdp
