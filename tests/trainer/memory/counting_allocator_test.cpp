#include "trainer/memory/counting_allocator.h"

#include <ATen/ATen.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/trainer/error_of.h"

namespace fsdp::counting_allocator_test {

constexpr int64_t kMib = 1 << 20;

CountingAllocator& installed() {
  CountingAllocator& allocator = CountingAllocator::instance();
  allocator.install();
  allocator.set_limit(0);
  return allocator;
}

at::Tensor mebibytes(int64_t count) { return at::empty({count * kMib}, at::kByte); }

TEST_CASE("tensors on the CPU are counted to the byte") {
  CountingAllocator& allocator = installed();
  const int64_t before = allocator.allocated_bytes();
  allocator.reset_peak();
  at::Tensor first = mebibytes(3);
  CHECK(allocator.allocated_bytes() == before + 3 * kMib);
  {
    const at::Tensor second = at::empty({1001});
    CHECK(allocator.allocated_bytes() == before + 3 * kMib + 4004);
    CHECK(reinterpret_cast<uintptr_t>(second.data_ptr()) % 64 == 0);
  }
  const at::Tensor view = first.narrow(0, 0, 5);
  first.reset();
  CHECK(allocator.allocated_bytes() == before + 3 * kMib);
  CHECK(allocator.allocated_bytes_max() == before + 3 * kMib + 4004);
  view.storage().set_data_ptr_noswap(c10::DataPtr());
  CHECK(allocator.allocated_bytes() == before);
  allocator.reset_peak();
  CHECK(allocator.allocated_bytes_max() == before);
  CHECK(at::empty({0}).data_ptr() == nullptr);
}

#ifndef __SANITIZE_ADDRESS__  // the sanitizer places every block itself
TEST_CASE("blocks of libraries took a part of freed tensors, and the heap grew by whole ones") {
  installed();
  const auto tensor = [] { return at::empty({2 * kMib}, at::kByte); };
  at::Tensor freed = tensor();
  const at::Tensor behind = tensor();
  const void* const place = freed.data_ptr();
  freed.reset();
  std::vector<std::unique_ptr<std::byte[]>> of_libraries;
  for (int i = 0; i < 1000; ++i) of_libraries.push_back(std::make_unique<std::byte[]>(10'000));
  CHECK(tensor().data_ptr() == place);
}
#endif

TEST_CASE("a refused allocation leaves the large ones of that time") {
  CountingAllocator& allocator = installed();
  allocator.reset_peak();
  CHECK(allocator.large_at_refusal().empty());
  const MemoryScope scope(MemoryUse::kHead);
  const at::Tensor largest = mebibytes(101);
  std::vector<at::Tensor> of_mlp;
  for (int i = 0; i < 3; ++i) {
    const MemoryScope mlp(MemoryUse::kMlp);
    of_mlp.push_back(mebibytes(67));
  }
  const at::Tensor small = at::empty({1000}, at::kByte);
  mebibytes(301);  // is gone when the next one is refused
  allocator.set_limit(allocator.allocated_bytes() + kMib);
  CHECK_THROWS(mebibytes(2));
  allocator.set_limit(0);
  of_mlp.clear();

  std::map<std::pair<MemoryUse, int64_t>, int> counts;
  for (const CountedAllocation& large : allocator.large_at_refusal()) {
    ++counts[{large.label.use, large.bytes}];
  }
  CHECK(counts[{MemoryUse::kMlp, 67 * kMib}] == 3);
  CHECK(counts[{MemoryUse::kHead, 101 * kMib}] == 1);
  CHECK(counts[{MemoryUse::kHead, 301 * kMib}] == 0);
  CHECK(counts[{MemoryUse::kHead, 1000}] == 0);
  allocator.reset_peak();
  CHECK(allocator.large_at_refusal().empty());
}

TEST_CASE("what one thread allocates another may free") {
  CountingAllocator& allocator = installed();
  const int64_t before = allocator.allocated_bytes();
  std::vector<at::Tensor> tensors(4);
  const auto on_threads = [&](auto body) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < tensors.size(); ++i) threads.emplace_back([&, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  };
  on_threads([&](size_t i) {
    for (int repeat = 0; repeat < 1000; ++repeat) tensors[i] = at::empty({repeat + 1});
  });
  CHECK(allocator.allocated_bytes() == before + 4 * 4000);
  on_threads([&](size_t i) { tensors[(i + 1) % tensors.size()].reset(); });
  CHECK(allocator.allocated_bytes() == before);
}

TEST_CASE("a bfloat16 linear, which allocates raw memory, works and is counted") {
  CountingAllocator& allocator = installed();
  const int64_t before = allocator.allocated_bytes();
  allocator.reset_peak();
  {
    const at::Tensor x = at::ones({64, 128}, at::kBFloat16);
    const at::Tensor weight = at::ones({32, 128}, at::kBFloat16);
    CHECK(at::linear(x, weight).eq(128).all().item<bool>());
  }
  CHECK(allocator.allocated_bytes_max() >= before + 2 * (64 * 128 + 32 * 128 + 64 * 32));
  CHECK(allocator.allocated_bytes() == before);
  void* raw = allocator.raw_allocate(100);
  CHECK(allocator.allocated_bytes() == before + 100);
  allocator.raw_deallocate(raw);
  CHECK(allocator.allocated_bytes() == before);
}

TEST_CASE("above the limit is out of memory, and below it goes on") {
  CountingAllocator& allocator = installed();
  const at::Tensor held = mebibytes(6);
  const int64_t before = allocator.allocated_bytes();
  allocator.reset_peak();
  allocator.set_limit(before + 4 * kMib);
  const std::string message = error_of([] { mebibytes(5); });
  CHECK_THAT(message, Catch::StartsWith("CPU out of memory. Tried to allocate 5.00 MiB; limit "));
  CHECK_THAT(message, Catch::EndsWith(" allocated"));
  CHECK(allocator.allocated_bytes() == before);
  CHECK(allocator.allocated_bytes_max() == before);
  CHECK_NOTHROW(mebibytes(4));
  allocator.set_limit(before + 4 * kMib, "the limit of its job");
  CHECK_THAT(error_of([] { mebibytes(5); }), Catch::Contains(" MiB, the limit of its job, "));
  allocator.set_limit(0);
  CHECK_NOTHROW(mebibytes(5));
}

// A sanitizer's own memory would exceed the limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a system that refuses memory is out of memory too") {
  installed();
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{256 * kMib, 256 * kMib};
    const bool limited = setrlimit(RLIMIT_AS, &limit) == 0;
    const std::string message = error_of([] { mebibytes(1024); });
    _exit(limited && message.find("the system refused") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("memory of the host is neither counted nor limited") {
  CountingAllocator& allocator = installed();
  const int64_t before = allocator.allocated_bytes();
  allocator.set_limit(before + kMib);
  at::Tensor offloaded;
  {
    const UncountedMemory on_the_host;
    const UncountedMemory within(false);
    offloaded = mebibytes(3);
    std::thread other([] { CHECK_THROWS_AS(mebibytes(3), c10::OutOfMemoryError); });
    other.join();
  }
  CHECK(allocator.allocated_bytes() == before);
  CHECK_THROWS_AS(mebibytes(3), c10::OutOfMemoryError);
  offloaded.reset();
  CHECK(allocator.allocated_bytes() == before);
  allocator.set_limit(0);
}

}  // namespace fsdp::counting_allocator_test
