#include "trainer/comm/process_group.h"

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "trainer/contract/config_error.h"

using namespace fsdp;

namespace {

int free_port() {
  const int socket_fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  REQUIRE(::bind(socket_fd, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(::getsockname(socket_fd, reinterpret_cast<sockaddr*>(&address), &length) == 0);
  ::close(socket_fd);
  return ntohs(address.sin_port);
}

// Runs `body` on one thread per rank, each with a group of its own over loopback, and rethrows the
// first error.
void on_ranks(int size, const std::function<void(std::unique_ptr<ProcessGroup>)>& body) {
  const int port = free_port();
  std::vector<std::exception_ptr> errors(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const WorldEnvironment world{rank, size, rank, size, "127.0.0.1", port};
        body(make_process_group(world, at::kCPU));
      } catch (...) {
        errors[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

// What rank `rank` contributes: values that round in every dtype.
at::Tensor contribution(int rank, int64_t count, at::ScalarType dtype) {
  return (at::arange(count, at::kDouble) * 0.37 + rank * 1.1).sin().mul(100).to(dtype);
}

// The sum in rank order.
at::Tensor expected_sum(int size, int64_t count, at::ScalarType dtype) {
  const at::ScalarType sum_dtype = dtype == at::kBFloat16 ? at::kFloat : dtype;
  at::Tensor sum = contribution(0, count, dtype).to(sum_dtype);
  for (int rank = 1; rank < size; ++rank) sum += contribution(rank, count, dtype).to(sum_dtype);
  return sum.to(dtype);
}

// Whether an all-reduce, which may add in another order, gave `sum` but for rounding.
bool sums_to(const at::Tensor& actual, const at::Tensor& sum) {
  return sum.is_floating_point() && sum.scalar_type() != at::kBFloat16
             ? actual.allclose(sum, 1e-6, 1e-4)
             : actual.equal(sum);
}

// Catch2's assertions are not for threads.
void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

}  // namespace

TEST_CASE("collectives are exact at every size") {
  const int size = GENERATE(2, 3, 4);
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16, at::kLong);
  // Empty, tiny, not a multiple of anything, and several chunks.
  const int64_t shard_size = GENERATE(0, 1, 1001, 700'001);
  CAPTURE(size, dtype, shard_size);
  const int64_t whole_size = shard_size * size;
  const at::Tensor sum = expected_sum(size, whole_size, dtype);

  CHECK_NOTHROW(on_ranks(size, [&](std::unique_ptr<ProcessGroup> group) {
    const int64_t begin = group->rank() * shard_size;
    const at::Tensor input = contribution(group->rank(), whole_size, dtype);

    at::Tensor shard = at::empty({shard_size}, dtype);
    group->reduce_scatter(shard, input).wait();
    require(shard.equal(sum.narrow(0, begin, shard_size)), "reduce_scatter");
    require(input.equal(contribution(group->rank(), whole_size, dtype)), "input is kept");

    at::Tensor whole = at::empty({whole_size}, dtype);
    group->all_gather(whole, shard).wait();
    require(whole.equal(sum), "all_gather");

    at::Tensor in_place = at::zeros({whole_size}, dtype);
    in_place.narrow(0, begin, shard_size).copy_(shard);
    group->all_gather(in_place, in_place.narrow(0, begin, shard_size)).wait();
    require(in_place.equal(sum), "all_gather in place");

    at::Tensor own = input.clone();
    group->reduce_scatter(own.narrow(0, begin, shard_size), own).wait();
    require(own.narrow(0, begin, shard_size).equal(shard), "reduce_scatter in place");

    at::Tensor again = input.clone();
    group->all_reduce(input).wait();
    require(sums_to(input, sum), "all_reduce");
    group->all_reduce(again).wait();
    require(again.equal(input), "all_reduce gives the same bits again");
    at::Tensor all = at::empty({size, input.numel()}, dtype);
    group->all_gather(all, input).wait();
    require(all.eq(input).all().item<bool>(), "all_reduce gives the same bits on every rank");
    group->barrier();
  }));
}

TEST_CASE("all_reduce takes counts that do not divide by the ranks") {
  const int size = GENERATE(2, 3, 4);
  const int64_t count = GENERATE(1, 2, 7, 1'000'003);
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  CHECK_NOTHROW(on_ranks(size, [&](std::unique_ptr<ProcessGroup> group) {
    const at::Tensor tensor = contribution(group->rank(), count, dtype);
    group->all_reduce(tensor).wait();
    require(sums_to(tensor, expected_sum(size, count, dtype)), "all_reduce");
    group->barrier();
  }));
}

TEST_CASE("operations may be in flight together and be waited for in any order") {
  CHECK_NOTHROW(on_ranks(3, [](std::unique_ptr<ProcessGroup> group) {
    const int64_t count = 300'000;
    const at::Tensor input = contribution(group->rank(), 3 * count, at::kFloat);
    const at::Tensor shard = at::empty({count});
    const at::Tensor whole = at::empty({3 * count});
    const at::Tensor other = contribution(group->rank(), 5, at::kDouble);
    Pending scattered = group->reduce_scatter(shard, input);
    Pending gathered = group->all_gather(whole, shard);
    Pending reduced = group->all_reduce(other);
    reduced.wait();
    gathered.wait();
    scattered.wait();
    scattered.wait();
    require(whole.equal(expected_sum(3, 3 * count, at::kFloat)), "gathered");
    require(sums_to(other, expected_sum(3, 5, at::kDouble)), "reduced");
    group->barrier();
  }));
}

TEST_CASE("ranks agree on rank 0's value, each time anew") {
  CHECK_NOTHROW(on_ranks(3, [](std::unique_ptr<ProcessGroup> group) {
    const std::string mine = "from " + std::to_string(group->rank());
    require(group->agree("folder", mine) == "from 0", "first");
    require(group->agree("folder", mine + " again") == "from 0 again", "second");
    group->barrier();
  }));
}

TEST_CASE("a rank that leaves in the middle makes the others fail, not hang") {
  const int size = GENERATE(2, 3, 4);
  const int leaver = GENERATE(0, 1);
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  std::atomic<int> failed = 0;
  CHECK_NOTHROW(on_ranks(size, [&](std::unique_ptr<ProcessGroup> group) {
    const at::Tensor tensor = at::ones({1'000'000}, dtype);
    group->all_reduce(tensor).wait();
    if (group->rank() == leaver) return;
    Pending first = group->all_reduce(tensor);
    Pending second = group->all_gather(at::empty({10 * size}), at::ones({10}));
    const auto fails = [&](Pending& pending, const std::string& operation) {
      try {
        pending.wait();
      } catch (const CommunicationError& error) {
        const std::string text = error.what();
        require(text.find(operation + " failed on rank " + std::to_string(group->rank())) == 0,
                "the operation and the rank are named");
        return true;
      }
      return false;
    };
    require(fails(first, "all_reduce"), "the operation under way fails");
    require(fails(second, "all_reduce"), "later ones fail for the same reason");
    ++failed;
  }));
  CHECK(failed == size - 1);
}

TEST_CASE("a group can be destroyed while an operation waits for a rank that never joins it") {
  const at::ScalarType dtype = GENERATE(at::kFloat, at::kBFloat16);
  std::atomic<bool> destroyed = false;
  CHECK_NOTHROW(on_ranks(2, [&](std::unique_ptr<ProcessGroup> group) {
    if (group->rank() == 0) {
      Pending never = group->all_reduce(at::ones({1'000'000}, dtype));
      group.reset();
      CHECK_THROWS_AS(never.wait(), CommunicationError);
      destroyed = true;
      destroyed.notify_one();
    } else {
      destroyed.wait(false);
    }
  }));
}

TEST_CASE("a write to a rank that is gone is an error, not a signal") {
  CHECK_NOTHROW(on_ranks(2, [](std::unique_ptr<ProcessGroup> group) {
    struct sigaction action {};
    require(::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_IGN,
            "SIGPIPE is ignored");
    group->barrier();
  }));
}

TEST_CASE("a single rank communicates with nobody") {
  const auto group = make_process_group({}, at::kCPU);
  const at::Tensor input = contribution(0, 100, at::kFloat);
  const at::Tensor shard = at::empty({100});
  const at::Tensor whole = at::empty({100});
  group->reduce_scatter(shard, input).wait();
  group->all_gather(whole, shard).wait();
  group->all_reduce(whole).wait();
  group->barrier();
  CHECK(whole.equal(input));
  CHECK(group->agree("key", "value") == "value");
}

TEST_CASE("ranks that never come are an error in time") {
  const WorldEnvironment world{0, 2, 0, 2, "127.0.0.1", free_port()};
  ProcessGroupOptions options;
  options.rendezvous_timeout = std::chrono::milliseconds(200);
  CHECK_THROWS_AS(make_process_group(world, at::kCPU, options), CommunicationError);
  const WorldEnvironment other{1, 2, 1, 2, "127.0.0.1", free_port()};
  CHECK_THROWS_AS(make_process_group(other, at::kCPU, options), CommunicationError);
}

TEST_CASE("shards that do not fit their buffer are refused") {
  CHECK_NOTHROW(on_ranks(2, [](std::unique_ptr<ProcessGroup> group) {
    const auto refused = [](auto call) {
      try {
        call();
      } catch (const c10::Error&) {
        return true;
      }
      return false;
    };
    require(refused([&] { group->all_gather(at::empty({7}), at::empty({3})); }), "size");
    require(refused([&] { group->reduce_scatter(at::empty({3}), at::empty({6}, at::kDouble)); }),
            "dtype");
    group->barrier();
  }));
}

#ifndef FSDP_CUDA
TEST_CASE("a CUDA group in a CPU build says what to do") {
  CHECK_THROWS_AS(make_process_group({}, at::Device(at::kCUDA, 0)), ConfigError);
}
#endif
