// Watches operations between ranks on a thread. It counts polls, so a suspension costs no time.
#include "trainer/comm/watchdog.h"

#include <algorithm>
#include <sstream>

namespace fsdp {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestPollInterval{100};
constexpr int kLeastPolls = 20;  // within the timeout

milliseconds interval_for(milliseconds timeout) {
  return std::clamp(timeout / kLeastPolls, milliseconds(1), kLongestPollInterval);
}

}  // namespace

Watchdog::Watchdog(milliseconds timeout, OnTimeout on_timeout, std::string remedy)
    : timeout_(timeout),
      poll_interval_(interval_for(timeout)),
      on_timeout_(std::move(on_timeout)),
      remedy_(std::move(remedy)),
      thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Watchdog::Watched Watchdog::watch(std::string operation) {
  const std::lock_guard lock(mutex_);
  return {*this, under_way_.insert(under_way_.end(), {std::move(operation), nullptr})};
}

void Watchdog::watch_device(std::string operation, std::function<Progress()> progress) {
  const std::lock_guard lock(mutex_);
  under_way_.push_back({std::move(operation), std::move(progress)});
}

Watchdog::Watched::~Watched() {
  const std::lock_guard lock(watchdog_.mutex_);
  watchdog_.under_way_.erase(operation_);
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, poll_interval_, [this] { return stopping_; })) {
    const std::string reason = poll();
    if (reason.empty() || !on_timeout_) continue;
    lock.unlock();
    on_timeout_(reason);
    lock.lock();
  }
}

std::string Watchdog::poll() {
  std::string reason;
  std::erase_if(under_way_, [&](Operation& operation) {
    const Progress progress = operation.progress ? operation.progress() : Progress::kRunning;
    if (progress != Progress::kRunning) return progress == Progress::kComplete;
    // Counts polls instead of time, so that a suspended process finds no time passed.
    ++operation.polls;
    const auto waited = [&](int polls) { return polls * poll_interval_ > timeout_; };
    if (reason.empty() && waited(operation.polls) && !waited(operation.polls - 1)) {
      std::ostringstream text;
      text << operation.name << " took longer than " << double(timeout_.count()) / 1000
           << " s; look in the other ranks' logs for one that is stuck or gone" << remedy_;
      reason = text.str();
    }
    return false;
  });
  return reason;
}

}  // namespace fsdp
