#include "trainer/comm/failure_notice.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace fsdp::failure_notice_test {

c10::intrusive_ptr<c10d::Store> served_store() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// One rank's notice, and the first failure that the notice reports.
class Rank {
 public:
  Rank(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
       bool serves_store = false)
      : notice([this](const std::string& reason) { told_.set_value(reason); }) {
    notice.open(store, rank, world_size, serves_store);
  }
  std::string wait() { return is_told_.get(); }
  bool is_told() const {
    return is_told_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  std::promise<std::string> told_;
  std::future<std::string> is_told_ = told_.get_future();

 public:
  FailureNotice notice;  // last member: destroyed first
};

// A store whose host does not answer.
class SilentStore : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>&) override { return wait(), false; }
  std::vector<uint8_t> compareSet(const std::string&, const std::vector<uint8_t>&,
                                  const std::vector<uint8_t>&) override {
    return wait(), std::vector<uint8_t>();
  }
  void wait_until_asked() { is_asked_.wait(false); }
  void answer() { answer_.set_value(); }

 private:
  void wait() {
    is_asked_ = true;
    is_asked_.notify_all();
    is_answered_.wait();
  }

  std::atomic<bool> is_asked_ = false;
  std::promise<void> answer_;
  std::shared_future<void> is_answered_ = answer_.get_future();
};

TEST_CASE("every other rank is told of a failure, and the store stays until they have seen it") {
  const auto store = served_store();
  Rank rank_0(store->clone(), 0, 3, /*serves_store=*/true);
  Rank rank_1(store->clone(), 1, 3);
  Rank rank_2(store->clone(), 2, 3);
  CHECK(rank_2.notice.post("no memory").empty());
  rank_2.notice.wait_until_seen();  // returns at once: rank 2 does not serve the store
  CHECK(rank_0.wait() == "rank 2 of 3 failed: no memory");
  rank_0.notice.wait_until_seen();
  CHECK(store->check({"first_failure/seen_by/1"}));
  CHECK(rank_1.wait() == "rank 2 of 3 failed: no memory");
  CHECK_FALSE(rank_2.is_told());
}

TEST_CASE("of two failures the first one counts, for both ranks") {
  const auto store = served_store();
  Rank rank_0(store->clone(), 0, 2);
  Rank rank_1(store->clone(), 1, 2);
  CHECK(rank_1.notice.post("no memory").empty());
  CHECK(rank_0.notice.post("rank 1 is gone") == "rank 1 of 2 failed: no memory");
  CHECK(rank_1.notice.post("and again").empty());
}

TEST_CASE("a rank that fails itself soon after another one gives its own failure alone") {
  const auto store = served_store();
  Rank rank_0(store->clone(), 0, 2);
  Rank rank_1(store->clone(), 1, 2);
  CHECK(rank_1.notice.post("bad key").empty());
  while (!store->check({"first_failure/seen_by/0"})) std::this_thread::yield();
  CHECK(rank_0.notice.post("bad key") == "rank 1 of 2 failed: bad key");
  CHECK_FALSE(rank_0.is_told());
}

// An idle process of this host. The destructor kills it.
struct IdleProcess {
  IdleProcess() : number(fork()) {
    while (number == 0) pause();
  }
  ~IdleProcess() { end(); }
  IdleProcess(const IdleProcess&) = delete;
  void end() {
    if (number == 0) return;
    kill(number, SIGKILL);
    waitpid(number, nullptr, 0);
    number = 0;
  }
  pid_t number;
};

TEST_CASE("a rank that is killed is noticed by those of its host, also if it serves the store") {
  IdleProcess process;
  auto store = served_store();
  register_process(*store, 0, process.number);
  Rank rank_1(store->clone(), 1, 3);
  Rank rank_2(store->clone(), 2, 3);
  const bool serves_store = GENERATE(false, true);
  process.end();
  if (serves_store) store.reset();
  CHECK_THAT(rank_1.wait(),
             Catch::StartsWith("rank 0 of 3 failed: its process ended without a message"));
  CHECK_THAT(rank_2.wait(),
             Catch::StartsWith("rank 0 of 3 failed: its process ended without a message"));
}

TEST_CASE("a rank that ended because of a killed rank is not taken for it") {
  IdleProcess killed, ended;
  auto store = served_store();
  register_process(*store, 1, ended.number);
  register_process(*store, 0, killed.number);
  Rank rank_2(store->clone(), 2, 3);
  ended.end();
  killed.end();
  store.reset();
  CHECK_THAT(rank_2.wait(), Catch::StartsWith("rank 0 of 3 failed"));
}

TEST_CASE("a rank that ends when all have ended their work has not failed") {
  IdleProcess process;
  auto store = served_store();
  register_process(*store, 0, process.number);
  Rank rank_1(store->clone(), 1, 2);
  rank_1.notice.let_others_end();
  process.end();
  store.reset();
  CHECK(rank_1.notice.post("no memory").empty());
  CHECK_FALSE(rank_1.is_told());
}

TEST_CASE("ranks that have not met tell nobody") {
  FailureNotice notice([](const std::string&) { FAIL(); });
  CHECK(notice.post("no memory").empty());
  notice.wait_until_seen();
}

TEST_CASE("a store that does not answer holds up no rank that fails, and is no failure") {
  const auto store = c10::make_intrusive<SilentStore>();
  Rank rank(store, 1, 2);
  CHECK(rank.notice.post("no memory").empty());
  rank.notice.wait_until_seen();
  CHECK_FALSE(rank.is_told());
  store->answer();  // or the notice's thread would never end
}

TEST_CASE("a store that does not answer when ranks meet holds up no rank that fails") {
  const auto store = c10::make_intrusive<SilentStore>();
  register_process(*store, 0);
  FailureNotice notice([](const std::string&) { FAIL(); });
  std::thread meeting([&] { notice.open(store, 1, 2, /*serves_store=*/false); });
  store->wait_until_asked();
  CHECK(notice.post("no memory").empty());
  store->answer();
  meeting.join();
}

TEST_CASE("a store whose host is gone is no failure: a run may have ended") {
  auto store = served_store();
  Rank rank(store->clone(), 1, 2);
  store.reset();
  CHECK(rank.notice.post("no memory").empty());
  CHECK_FALSE(rank.is_told());
}

}  // namespace fsdp::failure_notice_test
