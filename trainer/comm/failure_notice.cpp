// Spreads the first failure of a run through a key of the store. Only the first one is kept.
#include "trainer/comm/failure_notice.h"

#include <chrono>
#include <utility>
#include <vector>

namespace fsdp {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookInterval = std::chrono::seconds(1);
constexpr milliseconds kPatience = std::chrono::seconds(2);  // for this rank to fail by itself
constexpr milliseconds kPostLimit = std::chrono::seconds(2);
constexpr milliseconds kGoneLimit = std::chrono::seconds(1);  // a process outlives its connections
constexpr milliseconds kSeenLimit = std::chrono::seconds(3);
constexpr milliseconds kSeenInterval{20};

constexpr int kServingRank = 0;

const std::string kFirstFailure = "first_failure";

std::string seen_by(int rank) { return kFirstFailure + "/seen_by/" + std::to_string(rank); }

}  // namespace

FailureNotice::~FailureNotice() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void FailureNotice::open(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size,
                         bool serves_store) {
  fellows_.meet(*store);  // without the lock: the store may not answer, and post() must return
  const std::lock_guard lock(mutex_);
  store_ = std::move(store);
  rank_ = rank;
  world_size_ = world_size;
  serves_store_ = serves_store;
  is_looking_ = true;
  thread_ = std::thread([this] { look(); });
}

void FailureNotice::look() {
  const auto ends_itself = [this] { return stopping_ || !own_failure_.empty(); };
  std::unique_lock lock(mutex_);
  while (!stopping_ && first_failure_.empty()) {
    wake_.wait_for(lock, kLookInterval, ends_itself);
    if (stopping_) break;
    const std::string own_failure = own_failure_;
    lock.unlock();
    std::string first;
    bool is_answered = true;
    try {
      first = ask(own_failure);
    } catch (const std::exception&) {  // the store's host has ended, as at the end of a run
      is_answered = false;
      // Other ranks may be gone, too: they have noticed before this one.
      const bool is_gone = !may_others_end_ && fellows_.is_gone(kServingRank, kGoneLimit);
      if (is_gone) first = of_gone(kServingRank);
    }
    lock.lock();
    first_failure_ = first;
    if (!is_answered) break;
  }
  // If this rank fails for the same cause, it reports the failure itself.
  if (!first_failure_.empty()) wake_.wait_for(lock, kPatience, ends_itself);
  is_looking_ = false;
  const std::string first = first_failure_;
  const bool is_news = !first.empty() && !ends_itself();
  lock.unlock();
  answered_.notify_all();
  if (is_news) on_failure_(first);
}

std::string FailureNotice::ask(const std::string& own_failure) {
  std::string first;
  std::string failure = own_failure;
  // A failing rank posts its failure before its process ends. compareSet then returns its report.
  if (const auto gone = fellows_.find_gone(); gone && failure.empty()) failure = of_gone(*gone);
  if (!failure.empty()) {
    first = store_->compareSet(kFirstFailure, "", failure);
  } else if (store_->check({kFirstFailure})) {
    first = store_->get_to_str(kFirstFailure);
  }
  if (!first.empty()) store_->set(seen_by(rank_), "");
  return first;
}

std::string FailureNotice::of_gone(int rank) const {
  // Other ranks end only after this is set, which may have happened since `rank` was found gone.
  if (may_others_end_) return "";
  return failure_of_rank(rank) +
         "its process ended without a message: it crashed (see the rank's log) or was killed, by "
         "the system if the host's memory was full (see dmesg)";
}

std::string FailureNotice::failure_of_rank(int rank) const {
  return "rank " + std::to_string(rank) + " of " + std::to_string(world_size_) + " failed: ";
}

std::string FailureNotice::post(const std::string& reason) {
  std::unique_lock lock(mutex_);
  if (is_looking_) {
    own_failure_ = failure_of_rank(rank_) + reason;
    wake_.notify_one();
    answered_.wait_for(lock, kPostLimit, [this] { return !is_looking_; });
  }
  return first_failure_ == own_failure_ ? "" : first_failure_;
}

void FailureNotice::wait_until_seen() {
  {
    const std::lock_guard lock(mutex_);
    if (!serves_store_) return;
  }
  std::vector<std::string> keys;
  for (int rank = 0; rank < world_size_; ++rank) keys.push_back(seen_by(rank));
  const auto deadline = std::chrono::steady_clock::now() + kSeenLimit;
  try {
    while (!store_->check(keys) && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(kSeenInterval);
    }
  } catch (const std::exception&) {  // no rank is left
  }
}

}  // namespace fsdp
