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

// Tells every rank of a run which rank failed first, through a key of the store at which they met.
// If a rank is killed, another rank of its host reports it.
//
// The others may not notice by themselves: NCCL's kernels wait forever for a rank that is gone. A
// thread reads the key once a second. It has its own connection, because operations that wait for
// the store block the connection that they use. The watchdog's thread could not read the key: the
// store's host may never answer.
class FailureNotice {
 public:
  // Receives "rank 2 of 4 failed: <reason>" if another rank has failed and this one does not fail
  // within 2 s. Called once, on the notice's thread. It should end the process.
  using OnFailure = std::function<void(const std::string& reason)>;

  explicit FailureNotice(OnFailure on_failure) : on_failure_(std::move(on_failure)) {}
  ~FailureNotice();
  FailureNotice(const FailureNotice&) = delete;
  FailureNotice& operator=(const FailureNotice&) = delete;

  // Starts to watch the key, and the ranks of this host that are registered in `store`. Call it
  // once; nobody else may use `store`. `serves_store`: the other ranks' connections end with this
  // process. Throws std::exception if the store's host has ended.
  void open(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size, bool serves_store);

  // Lets other ranks end without a failure from now on. Call it before the last barrier.
  void let_others_end() { may_others_end_ = true; }

  // Reports that this rank has failed, unless another rank was first. Returns that rank's line as
  // OnFailure gets it. Returns an empty text if this rank was first, or if the store does not
  // answer within 2 s. Never throws. May be called from any thread.
  std::string post(const std::string& reason);
  // Returns when every rank has posted or seen a failure, after 3 s at most. Returns at once if
  // this process does not serve the store. Never throws. Call it after post().
  void wait_until_seen();

 private:
  void look();
  // Asks the store once. Returns the line of the rank that failed first; empty if none has.
  std::string ask(const std::string& own_failure);
  // Returns the line of `rank`, whose process is gone; empty if ranks may end.
  std::string of_gone(int rank) const;
  std::string failure_of_rank(int rank) const;

  const OnFailure on_failure_;
  // The arguments of open(); null until then.
  c10::intrusive_ptr<c10d::Store> store_;
  int rank_ = 0;
  int world_size_ = 1;
  bool serves_store_ = false;
  FellowProcesses fellows_;
  std::atomic<bool> may_others_end_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable answered_;
  bool is_looking_ = false;
  bool stopping_ = false;
  std::string own_failure_;    // to be posted
  std::string first_failure_;  // the first one known
  std::thread thread_;
};

}  // namespace fsdp
