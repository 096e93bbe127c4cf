#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "trainer/comm/fellow_processes.h"

namespace fsdp {

// Tells every rank of a run which rank failed first, through a key of the store that they met at.
// A rank that is killed cannot say so; another rank of its host does.
//
// The others may not notice by themselves: NCCL's kernels wait for a rank that is gone for ever. A
// thread looks at the key once a second. It uses a connection of its own, since other operations
// wait on theirs. The watchdog could not do this: the store's host may never answer.
class FailureNotice {
 public:
  // Gets "rank 2 of 4 failed: <reason>" if another rank has failed, and this one has not within 2
  // s. Called once, on the thread of the notice. It should end the process.
  using OnFailure = std::function<void(const std::string& reason)>;

  explicit FailureNotice(OnFailure on_failure) : on_failure_(std::move(on_failure)) {}
  ~FailureNotice();
  FailureNotice(const FailureNotice&) = delete;
  FailureNotice& operator=(const FailureNotice&) = delete;

  // Begins to look, once. Nobody else uses `store`. `serves_store`: the others' connections end
  // with this process.
  void open(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size, bool serves_store);

  // From now on another rank may end without a failure. To be called before the last barrier.
  void let_others_end() { may_others_end_ = true; }

  // Says that this rank has failed, unless another rank was first. Returns that one's line as
  // OnFailure gets it; empty if this rank was first, or if the store does not answer within 2 s.
  // Never throws. May be called from any thread.
  std::string post(const std::string& reason);
  // Returns when every rank has posted or seen a failure, after 3 s at most; at once if this
  // process does not serve the store. Never throws. To be called after post().
  void wait_until_seen();

 private:
  void look();
  // Asks the store once. Returns the line of the rank that failed first; empty if none has.
  std::string ask(const std::string& own_failure);
  // The line of a rank whose process is gone; empty if none is, after `patience`.
  std::string of_gone(std::chrono::milliseconds patience) const;
  std::string failure_of_rank(int rank) const;

  const OnFailure on_failure_;
  // What open() was given; null until then.
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_ = 0;
  int world_size_ = 1;
  bool serves_store_ = false;
  FellowProcesses fellows_;  // of the notice's thread
  std::atomic<bool> may_others_end_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable answered_;
  bool is_looking_ = false;
  bool stopping_ = false;
  std::string own_failure_;    // to be posted
  std::string first_failure_;  // that is known
  std::thread thread_;
};

}  // namespace fsdp
