// Runs tasks in order on one thread. After a task has failed, all later tasks fail with its error.
#include "trainer/backend/worker.h"

#include <ATen/Parallel.h>

namespace fsdp {

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

std::shared_future<void> Worker::post(std::function<void()> task) {
  std::packaged_task<void()> packaged([this, task = std::move(task)] {
    if (failure_) std::rethrow_exception(failure_);
    try {
      task();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  });
  std::shared_future<void> done = packaged.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(packaged));
  }
  wake_.notify_one();
  return done;
}

void Worker::drain() noexcept {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return tasks_.empty() && !is_busy_; });
}

void Worker::work() {
  at::init_num_threads();
  std::unique_lock lock(mutex_);
  while (true) {
    is_busy_ = false;
    if (tasks_.empty()) idle_.notify_all();
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::packaged_task<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    is_busy_ = true;
    lock.unlock();
    task();
    task = {};  // frees its captures while drain() still waits
    lock.lock();
  }
}

}  // namespace fsdp
