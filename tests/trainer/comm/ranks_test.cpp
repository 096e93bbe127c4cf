// One rank of several: start it with torchrun (see CMakeLists.txt). All ranks run the same test
// cases in the same order, over one group of real processes.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <mutex>
#include <numeric>
#include <thread>

#include "trainer/comm/process_group.h"
#include "trainer/comm/shared_device.h"

namespace fsdp::ranks_test {

using Catch::Matchers::StartsWith;

std::unique_ptr<ProcessGroup> group;

// The contribution of rank `rank`: values that round in every dtype.
at::Tensor contribution(int rank, int64_t count, at::ScalarType dtype) {
  return (at::arange(count, at::kDouble) * 0.37 + rank * 1.1).sin().mul(100).to(dtype);
}

// Returns the sum of all contributions, added in rank order.
at::Tensor expected_sum(int64_t count, at::ScalarType dtype) {
  const at::ScalarType sum_dtype = at::isReducedFloatingType(dtype) ? at::kFloat : dtype;
  at::Tensor sum = contribution(0, count, dtype).to(sum_dtype);
  for (int rank = 1; rank < group->size(); ++rank) {
    sum += contribution(rank, count, dtype).to(sum_dtype);
  }
  return sum.to(dtype);
}

TEST_CASE("collectives are exact", "[.ranks]") {
  const at::ScalarType dtype =
      GENERATE(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong);
  // Empty, tiny, odd, and of several chunks.
  const int64_t shard_size = GENERATE(0, 1, 1001, 700'001);
  const int64_t whole_size = shard_size * group->size();
  CAPTURE(dtype, shard_size);
  const at::Tensor sum = expected_sum(whole_size, dtype);
  const at::Tensor input = contribution(group->rank(), whole_size, dtype);
  const auto own_part = [&](const at::Tensor& whole) {
    return whole.narrow(0, group->rank() * shard_size, shard_size);
  };

  const at::Tensor shard = at::empty({shard_size}, dtype);
  group->reduce_scatter(shard, input).wait();
  CHECK(shard.equal(own_part(sum)));
  CHECK(input.equal(contribution(group->rank(), whole_size, dtype)));

  const at::Tensor whole = at::empty({whole_size}, dtype);
  group->all_gather(whole, shard).wait();
  CHECK(whole.equal(sum));

  const at::Tensor in_place = at::zeros({whole_size}, dtype);
  own_part(in_place).copy_(shard);
  group->all_gather(in_place, own_part(in_place)).wait();
  CHECK(in_place.equal(sum));

  const at::Tensor own = input.clone();
  group->reduce_scatter(own_part(own), own).wait();
  CHECK(own_part(own).equal(shard));
}

TEST_CASE("all_reduce takes any count and gives the same bits every time and everywhere",
          "[.ranks]") {
  const at::ScalarType dtype =
      GENERATE(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong);
  const int64_t count = GENERATE(1, 2, 7, 1'000'003);
  CAPTURE(dtype, count);
  const at::Tensor tensor = contribution(group->rank(), count, dtype);
  const at::Tensor again = tensor.clone();
  group->all_reduce(tensor).wait();
  CHECK(tensor.equal(expected_sum(count, dtype)));
  group->all_reduce(again).wait();
  CHECK(again.equal(tensor));
  const at::Tensor all = at::empty({group->size(), count}, dtype);
  group->all_gather(all, tensor).wait();
  CHECK(all.eq(tensor).all().item<bool>());
}

TEST_CASE("operations may be in flight together and be waited for in any order", "[.ranks]") {
  const int64_t count = 300'000;
  const int64_t whole_size = count * group->size();
  const at::Tensor input = contribution(group->rank(), whole_size, at::kFloat);
  const at::Tensor shard = at::empty({count});
  const at::Tensor whole = at::empty({whole_size});
  const at::Tensor other = contribution(group->rank(), 5, at::kDouble);
  Pending scattered = group->reduce_scatter(shard, input);
  Pending gathered = group->all_gather(whole, shard);
  Pending reduced = group->all_reduce(other);
  reduced.wait();
  gathered.wait();
  scattered.wait();
  scattered.wait();
  CHECK(whole.equal(expected_sum(whole_size, at::kFloat)));
  CHECK(other.equal(expected_sum(5, at::kDouble)));
}

TEST_CASE("the time of every collective is known", "[.ranks]") {
  const auto measured_ms = [](const std::function<void()>& operation) {
    group->clock().start();
    operation();
    return group->clock().stop().milliseconds();
  };
  const at::Tensor shard = at::ones({1000});
  const at::Tensor whole = at::ones({1000 * group->size()});
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<double> times_ms{
      measured_ms([&] { group->all_gather(whole, shard).wait(); }),
      measured_ms([&] { group->reduce_scatter(shard, whole).wait(); }),
      measured_ms([&] { group->all_reduce(shard).wait(); })};
  const std::chrono::duration<double, std::milli> all = std::chrono::steady_clock::now() - begin;
  CHECK(*std::min_element(times_ms.begin(), times_ms.end()) > 0);
  CHECK(std::accumulate(times_ms.begin(), times_ms.end(), 0.0) <= all.count());
  CHECK(measured_ms([] {}) == 0);
}

TEST_CASE("ranks agree on rank 0's value, each time anew", "[.ranks]") {
  const std::string mine = "from " + std::to_string(group->rank());
  CHECK(group->agree("folder", mine) == "from 0");
  CHECK(group->agree("folder", mine + " again") == "from 0 again");
}

TEST_CASE("a write to a rank that is gone is an error, not a signal", "[.ranks]") {
  struct sigaction action {};
  REQUIRE(::sigaction(SIGPIPE, nullptr, &action) == 0);
  CHECK(action.sa_handler == SIG_IGN);
}

TEST_CASE("shards that do not fit their buffer are refused", "[.ranks]") {
  const at::Tensor shard = at::empty({3});
  CHECK_THROWS_AS(group->all_gather(at::empty({3 * group->size() + 1}), shard), c10::Error);
  CHECK_THROWS_AS(group->reduce_scatter(shard, at::empty({3 * group->size()}, at::kDouble)),
                  c10::Error);
}

TEST_CASE("a subgroup counts its ranks in the order they are named", "[.ranks]") {
  std::vector<int> reversed(group->size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const auto backwards = group->subgroup("backwards", reversed);
  const int last = group->size() - 1;
  CHECK(backwards->size() == group->size());
  CHECK(backwards->rank() == last - group->rank());
  const at::Tensor order = at::empty({group->size()}, at::kLong);
  backwards->all_gather(order, at::full({1}, group->rank(), at::kLong)).wait();
  CHECK(order.equal(at::arange(last, -1, -1, at::kLong)));
  CHECK(backwards->agree("value", std::to_string(group->rank())) == std::to_string(last));
  backwards->barrier();
}

TEST_CASE("a subgroup of one rank communicates with nobody", "[.ranks]") {
  const auto alone = group->subgroup("alone", {group->rank()});
  CHECK(alone->size() == 1);
  const at::Tensor tensor = at::full({3}, group->rank(), at::kLong);
  alone->all_reduce(tensor).wait();
  CHECK(tensor.eq(group->rank()).all().item<bool>());
}

TEST_CASE("rows and columns of ranks communicate at the same time", "[.ranks]") {
  if (group->size() != 4) return;
  const int row = group->rank() / 2;
  const int column = group->rank() % 2;
  const auto in_row = group->subgroup("row", {2 * row, 2 * row + 1});
  const auto in_column = group->subgroup("column", {column, column + 2});
  REQUIRE(in_row->rank() == column);
  REQUIRE(in_column->rank() == row);

  const int64_t count = 300'000;
  const auto part = [&](int rank) { return contribution(rank, count, at::kFloat); };
  const at::Tensor whole = at::empty({2, count});
  const at::Tensor sum = part(group->rank());
  Pending gathered, reduced;
  // The order differs between columns: the groups do not wait for each other.
  if (column == 0) gathered = in_row->all_gather(whole, part(group->rank()), 1);
  reduced = in_column->all_reduce(sum, 0);
  if (column == 1) gathered = in_row->all_gather(whole, part(group->rank()), 1);
  reduced.wait();
  gathered.wait();
  CHECK(whole.equal(at::stack({part(2 * row), part(2 * row + 1)})));
  CHECK(sum.equal(part(column) + part(column + 2)));
  group->barrier();
}

// The reasons that a group's watchdog gave.
class Reasons {
 public:
  void add(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    reasons_.push_back(reason);
    added_.notify_all();
  }
  // Waits for a reason with this beginning.
  void wait_for(const std::string& beginning) {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] {
      return std::any_of(reasons_.begin(), reasons_.end(),
                         [&](const std::string& reason) { return reason.starts_with(beginning); });
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::string> reasons_;
};

// Returns a group of all ranks, and the time that they had to meet: enough for a busy host.
std::pair<std::unique_ptr<ProcessGroup>, std::chrono::seconds> group_that_met_quickly() {
  ProcessGroupOptions options;
  for (std::chrono::seconds time(1);; time *= 2) {
    options.rendezvous_timeout = time;
    WorldEnvironment world = read_world_environment();
    world.store_prefix += "/slow" + std::to_string(time.count());
    std::unique_ptr<ProcessGroup> met;
    try {
      met = make_process_group(world, at::kCPU, options);
    } catch (const CommunicationError&) {  // tried again
    }
    const at::Tensor ranks_that_met = at::full({1}, met ? 1 : 0, at::kLong);
    group->all_reduce(ranks_that_met).wait();
    if (ranks_that_met.item<int64_t>() == group->size()) return {std::move(met), time};
  }
}

TEST_CASE("an operation may take longer than ranks may take to meet", "[.ranks]") {
  const auto [slow, time_to_meet] = group_that_met_quickly();
  // Longer, so a limit on the operation would end it.
  if (group->rank() == 0) std::this_thread::sleep_for(time_to_meet + std::chrono::seconds(1));
  const at::Tensor sum = at::ones({5});
  slow->all_reduce(sum).wait();
  CHECK(sum[0].item<float>() == float(group->size()));
}

TEST_CASE("what waits too long for another rank is named: operation, unit, rank, group",
          "[.ranks]") {
  Reasons reasons;
  ProcessGroupOptions options;
  options.operation_timeout = std::chrono::milliseconds(50);
  options.on_timeout = [&](const std::string& reason) { reasons.add(reason); };
  WorldEnvironment world = read_world_environment();
  world.store_prefix += "/watched";
  const auto watched = make_process_group(world, at::kCPU, options);
  const std::string place =
      " on rank " + std::to_string(group->rank()) + " of " + std::to_string(group->size());
  // Rank 0 calls the operation only after all others have reported that it takes too long.
  const auto held_up = [&](const std::string& name, const std::function<void()>& operation) {
    if (group->rank() == 0) {
      group->barrier();
      operation();
      return;
    }
    auto done = std::async(std::launch::async, operation);
    reasons.wait_for(name + " took longer than 0.05 s");
    group->barrier();
    done.get();
  };
  std::vector<int> all(group->size());
  std::iota(all.begin(), all.end(), 0);
  std::string listed = "0";
  for (int rank = 1; rank < group->size(); ++rank) listed += ", " + std::to_string(rank);
  const std::string place_in_part = place + " in part of ranks " + listed;
  std::unique_ptr<ProcessGroup> part;
  const at::Tensor shard = at::ones({5});
  const at::Tensor whole = at::ones({5 * group->size()});

  held_up("agree on folder" + place, [&] { watched->agree("folder", "value"); });
  held_up("barrier" + place, [&] { watched->barrier(); });
  watched->clock().start();
  held_up("all_gather of unit 3" + place, [&] { watched->all_gather(whole, shard, 3).wait(); });
  held_up("connect" + place_in_part, [&] { part = watched->subgroup("part", all); });
  held_up("reduce_scatter of unit 0" + place_in_part,
          [&] { part->reduce_scatter(shard, whole, 0).wait(); });
  held_up("all_reduce" + place_in_part, [&] { part->all_reduce(whole).wait(); });
  // Waiting counts as communication. On all ranks except 0, three operations waited over 50 ms.
  const double communication_time_ms = watched->clock().stop().milliseconds();
  CHECK(communication_time_ms > (group->rank() == 0 ? 0 : 3 * 50));
  watched->barrier();
}

TEST_CASE("ranks that were given the same device are known to all, before any collective",
          "[.ranks]") {
  const auto group_named = [](const std::string& name) {
    WorldEnvironment world = read_world_environment();
    world.store_prefix += "/" + name;
    return make_process_group(world, at::kCPU);
  };
  const int last = group->size() - 1;
  const auto own = group_named("own");
  CHECK_FALSE(ranks_that_share_a_device(*own, "GPU " + std::to_string(own->rank())));
  const auto shared = group_named("shared");
  CHECK(ranks_that_share_a_device(*shared, "GPU " + std::to_string(shared->rank() % last)) ==
        std::pair(0, last));
  group->barrier();
}

// These test cases come last, as they end the ranks' group. CMakeLists.txt chooses them by name.

void check_that_others_fail_when_this_one_leaves(int leaver, at::ScalarType dtype) {
  const at::Tensor tensor = at::ones({1'000'000}, dtype);
  group->all_reduce(tensor).wait();
  if (group->rank() == leaver) _exit(0);
  Pending first = group->all_reduce(tensor);
  Pending second = group->all_gather(at::empty({10 * group->size()}), at::ones({10}));
  const auto named = StartsWith("all_reduce failed on rank " + std::to_string(group->rank()));
  CHECK_THROWS_WITH(first.wait(), named);
  CHECK_THROWS_WITH(second.wait(), named);  // names the same failure
}

TEST_CASE("rank 0 leaves in the middle: the others fail, they do not hang", "[.leaves][ranks]") {
  check_that_others_fail_when_this_one_leaves(0, at::kFloat);
}

TEST_CASE("rank 1 leaves in the middle: the others fail, they do not hang", "[.leaves][ranks]") {
  check_that_others_fail_when_this_one_leaves(1, at::kBFloat16);
}

// Makes the ranks' group before their first test case, and ends it behind the last one.
class Ranks : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& test_case) override {
    if (group || std::ranges::find(test_case.lcaseTags, "ranks") == test_case.lcaseTags.end())
      return;
    WorldEnvironment world = read_world_environment();
    if (std::getenv("AS_ON_SEVERAL_HOSTS") != nullptr) world.local_world_size = 1;
    if (world.world_size < 2) {
      std::cerr << "start it with torchrun --no-python --nproc-per-node 2 or more\n";
      std::exit(2);
    }
    group = make_process_group(world, at::kCPU);
  }

  void testRunEnded(const Catch::TestRunStats& run) override {
    if (!group) return;
    std::cout.flush();
    if (run.totals.assertions.failed > 0) _exit(1);  // the others may not come to the barrier
    try {
      group->barrier();
    } catch (const CommunicationError&) {
      _exit(0);  // a rank has left, as the test case wanted
    }
    group.reset();
  }
};
CATCH_REGISTER_LISTENER(Ranks)

}  // namespace fsdp::ranks_test
