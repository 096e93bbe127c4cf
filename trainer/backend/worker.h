#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace fsdp {

// A thread that does one task after another. Operators in tasks use libtorch's number of threads.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Returns a future that is ready when the task is done. After a task has thrown, later tasks are
  // skipped, and their futures give its exception.
  std::shared_future<void> post(std::function<void()> task);
  // True in a task.
  bool is_current() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Returns when no task is left.
  void drain() noexcept;

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool is_busy_ = false;
  bool stopping_ = false;
  std::exception_ptr failure_;  // used only by the thread
  std::thread thread_;
};

}  // namespace fsdp
