#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/comm/communication_clock.h"
#include "trainer/comm/communication_error.h"
#include "trainer/comm/environment.h"
#include "trainer/comm/failure_notice.h"
#include "trainer/comm/pending.h"

namespace fsdp {

// The `unit` of an operation that belongs to no unit of the model.
inline constexpr int kNoUnit = -1;

// Runs collectives of all ranks of the run, or of some of them.
//
// Every rank calls the same operations in the same order, from one thread. Tensors are contiguous,
// on the group's device, and of one dtype per call (CPU: float32, float64, bfloat16, float16,
// int64). Sums have a fixed order, bfloat16 in float32 on the CPU, so every run has the same
// results. `unit` only labels the operation in messages. Before the groups are destroyed, wait for
// every Pending and then call barrier(): rank 0 hosts the store. After an error, just end the
// process.
class ProcessGroup {
 public:
  // The group's operations add their time to `clock`.
  ProcessGroup(int rank, int size,
               std::shared_ptr<CommunicationClock> clock = std::make_shared<CommunicationClock>())
      : rank_(rank), size_(size), clock_(std::move(clock)) {}
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Times the operations of all groups of the run. A group of one rank takes no time.
  CommunicationClock& clock() const { return *clock_; }
  // Returns this moment of the current stream, as clock() times operations.
  virtual std::shared_ptr<const CommunicationClock::Interval> now() {
    return CommunicationClock::now();
  }

  // Sets output [size * n] to all shards [n] in rank order. `shard` may be its part of `output`.
  virtual Pending all_gather(at::Tensor output, at::Tensor shard, int unit = kNoUnit) = 0;
  // Sets shard [n] to this rank's part of the sum of every rank's input [size * n]. `shard` may be
  // that part of `input`.
  virtual Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit = kNoUnit) = 0;
  // Sets the tensor to the sum of every rank's tensor, in place, with the same bits on every rank.
  virtual Pending all_reduce(at::Tensor tensor, int unit = kNoUnit) = 0;
  // Returns when every rank has called it. Throws CommunicationError.
  virtual void barrier() = 0;
  // Returns rank 0's value on every rank. Throws CommunicationError.
  virtual std::string agree(const std::string& key, const std::string& value) = 0;
  // Leaves a value for rank 0 without waiting. Use each key once. Throws CommunicationError.
  virtual void leave(const std::string& key, const std::string& value) = 0;
  // Called by rank 0 only: true if a rank has left a value. Throws CommunicationError.
  virtual bool is_left(const std::string& key) = 0;
  // Called by rank 0 only: awaits and returns a rank's value. Throws CommunicationError.
  virtual std::string take(const std::string& key) = 0;
  // Returns a second group of the same ranks. Its operations do not queue behind this group's. Null
  // unless NCCL connects several hosts. Every rank of this group calls it.
  virtual std::unique_ptr<ProcessGroup> beside(const std::string&) { return nullptr; }
  // Returns a group of some ranks of this one, including this rank, numbered from 0 in the order of
  // `ranks`. Every rank of this group calls it with its own set and one `name`. Different sets have
  // no rank in common. Groups run independently of each other. Throws CommunicationError.
  virtual std::unique_ptr<ProcessGroup> subgroup(const std::string& name,
                                                 const std::vector<int>& ranks) = 0;

 private:
  int rank_;
  int size_;
  std::shared_ptr<CommunicationClock> clock_;
};

struct ProcessGroupOptions {
  // The most time between the starts of two ranks.
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(1);
  // The time that one operation waits for slower ranks.
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(30);
  // Called on its own thread if an operation takes longer, with one line that names the operation,
  // its unit and its rank. It should end the process. Without it, the transport makes the operation
  // fail.
  std::function<void(const std::string& reason)> on_timeout;
  // Opened when several ranks have met; outlives the group. May be null.
  FailureNotice* failure_notice = nullptr;
  // Uses NCCL even for a single rank on CUDA, where every operation could be a copy.
  bool nccl_for_single_rank = false;
};

// Meets the other ranks at the master's address. Uses NCCL on a CUDA device (made current here),
// gloo on the CPU, and no communication for a single rank. Throws CommunicationError if the ranks
// do not meet. Throws ConfigError on every rank if they are of different worlds (see same_world.h),
// and for CUDA in a build without it. With more than one rank, the process ignores SIGPIPE from
// then on, as Python does.
std::unique_ptr<ProcessGroup> make_process_group(const WorldEnvironment& world, at::Device device,
                                                 const ProcessGroupOptions& options = {});

}  // namespace fsdp
