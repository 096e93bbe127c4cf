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

// All ranks of the run, or some of them, and what they do together.
//
// Every rank calls the same operations in the same order, from one thread. Tensors are contiguous,
// on the group's device, of one dtype per call (CPU: float32, float64, bfloat16, float16, int64).
// Sums are taken in a fixed order, bfloat16 in float32 on the CPU, so results are the same on every
// run. `unit` only labels the operation in messages. Wait for every Pending, then call barrier(),
// before the groups are destroyed: rank 0 hosts the store. After an error end the process instead.
class ProcessGroup {
 public:
  // `clock` is what the group's operations add their time to.
  ProcessGroup(int rank, int size,
               std::shared_ptr<CommunicationClock> clock = std::make_shared<CommunicationClock>())
      : rank_(rank), size_(size), clock_(std::move(clock)) {}
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Times the operations of all ranks' group and of every group made of it; those of a group of one
  // rank take no time.
  CommunicationClock& clock() const { return *clock_; }

  // output [size * n] = every rank's shard [n] in rank order; `shard` may be its part of `output`.
  virtual Pending all_gather(at::Tensor output, at::Tensor shard, int unit = kNoUnit) = 0;
  // shard [n] = this rank's part of the sum of every rank's input [size * n]; `shard` may be that
  // part of `input`.
  virtual Pending reduce_scatter(at::Tensor shard, at::Tensor input, int unit = kNoUnit) = 0;
  // tensor = the sum of every rank's tensor, in place; the same bits on every rank.
  virtual Pending all_reduce(at::Tensor tensor, int unit = kNoUnit) = 0;
  // Returns when every rank has called it. Throws CommunicationError.
  virtual void barrier() = 0;
  // Rank 0's value, on every rank. Throws CommunicationError.
  virtual std::string agree(const std::string& key, const std::string& value) = 0;
  // Leaves a value for rank 0, which takes it, once; waits for nobody. No key is used twice. Throws
  // CommunicationError.
  virtual void leave(const std::string& key, const std::string& value) = 0;
  // Rank 0 alone: true if a rank has left a value there. Throws CommunicationError.
  virtual bool is_left(const std::string& key) = 0;
  // Rank 0 alone: what a rank has left, or will. Throws CommunicationError.
  virtual std::string take(const std::string& key) = 0;
  // A group of the same ranks whose operations do not queue behind this one's, if both go over a
  // network; else null. Every rank of this group calls it.
  virtual std::unique_ptr<ProcessGroup> beside(const std::string&) { return nullptr; }
  // A group of those ranks of this one, counted from 0 in the order of `ranks`; this rank is among
  // them. Every rank of this group calls it, each with its own set, which has no rank in common
  // with the others' sets; `name` is the same everywhere. Groups run independently of each other.
  // Throws CommunicationError.
  virtual std::unique_ptr<ProcessGroup> subgroup(const std::string& name,
                                                 const std::vector<int>& ranks) = 0;

 private:
  int rank_;
  int size_;
  std::shared_ptr<CommunicationClock> clock_;
};

struct ProcessGroupOptions {
  // How long ranks may start after each other.
  std::chrono::milliseconds rendezvous_timeout = std::chrono::minutes(1);
  // How long one operation waits for slower ranks.
  std::chrono::milliseconds operation_timeout = std::chrono::minutes(30);
  // Gets one line that names the operation, its unit and its rank when one takes longer, on a
  // thread of its own; it should end the process. Without it the transport makes the operation
  // fail.
  std::function<void(const std::string& reason)> on_timeout;
  // Opened as soon as the ranks have met, unless there is one rank; outlives the group. May be
  // null.
  FailureNotice* failure_notice = nullptr;
  // Use NCCL even for a single rank on CUDA, where every operation could be a copy.
  bool nccl_for_single_rank = false;
};

// Meets the other ranks at the master's address: NCCL on a CUDA device (made current here), gloo on
// the CPU, no communication for a single rank. Throws CommunicationError when the ranks do not
// meet, ConfigError on every rank if they are of different worlds (see same_world.h), and for CUDA
// in a build without it. With more than one rank the process ignores
// SIGPIPE from then on, as Python does.
std::unique_ptr<ProcessGroup> make_process_group(const WorldEnvironment& world, at::Device device,
                                                 const ProcessGroupOptions& options = {});

}  // namespace fsdp
