#include "trainer/train/device.h"

#include <sched.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "base/system/processor.h"
#include "base/text/config_error.h"
#include "trainer/memory/counting_allocator.h"

namespace fsdp::device_test {

EnvironmentLookup omp_num_threads(std::optional<std::string> value) {
  return
      [value](const std::string& name) { return name == "OMP_NUM_THREADS" ? value : std::nullopt; };
}

TEST_CASE("the number of threads: the specification, the environment, the cores") {
  const WorldEnvironment four{0, 8, 0, 4, "n1", 1};
  RunSpec spec;
  CHECK(threads_per_rank(spec, four, 16, omp_num_threads({})) == 4);
  CHECK(threads_per_rank(spec, four, 2, omp_num_threads({})) == 1);
  CHECK(threads_per_rank(spec, four, 16, omp_num_threads("3")) == 3);
  CHECK(threads_per_rank(spec, four, 16, omp_num_threads("3,1")) == 3);
  CHECK_THROWS_AS(threads_per_rank(spec, four, 16, omp_num_threads("many")), ConfigError);
  CHECK_THROWS_AS(threads_per_rank(spec, four, 16, omp_num_threads("0")), ConfigError);
  spec.threads_per_rank = 2;
  CHECK(threads_per_rank(spec, four, 16, omp_num_threads("3")) == 2);
}

TEST_CASE("only the cores that the process may use count") {
  const int cores = available_cores();
  CHECK(cores >= 1);
  int bound = 0;
  std::thread([&] {
    cpu_set_t mask;
    sched_getaffinity(0, sizeof(mask), &mask);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    sched_setaffinity(0, sizeof(mask), &mask);
    bound = available_cores();
  }).join();
  CHECK(bound == 1);
}

TEST_CASE("the memory limit of the specification is the allocator's") {
  RunSpec spec;
  spec.memory_limit_gib = 1.5;
  set_memory_limit(spec, at::kCPU);
  CHECK(CountingAllocator::instance().limit_bytes() == 1536ll << 20);
  set_memory_limit(RunSpec{}, at::kCPU);
  CHECK(CountingAllocator::instance().limit_bytes() == 0);
}

TEST_CASE("the device that was asked for") {
  CHECK(pick_device(DeviceKind::kCpu, {}).is_cpu());
  CHECK(pick_device(DeviceKind::kAuto, {}).is_cpu());
  CHECK_THROWS_WITH(pick_device(DeviceKind::kCuda, {}), Catch::Contains("cmake --preset cuda"));
}

TEST_CASE("each rank of a host has a GPU of its own") {
  const auto visible = [](const std::string& name) {
    return name == "CUDA_VISIBLE_DEVICES" ? std::optional<std::string>("2,5") : std::nullopt;
  };
  const auto unset = [](const std::string&) { return std::optional<std::string>(); };
  const auto local = [](int local_rank, int local_world_size) {
    return WorldEnvironment{local_rank, 8, local_rank, local_world_size};
  };
  CHECK(choose_gpu(local(0, 2), 2, visible) == 0);
  CHECK(choose_gpu(local(1, 2), 2, visible) == 1);
  CHECK(choose_gpu(local(1, 2), 8, unset) == 1);
  CHECK(choose_gpu(local(3, 4), 1, unset) == 0);  // sees only its own GPU
  for (const int local_rank : {0, 3}) {
    CHECK_THROWS_WITH(choose_gpu(local(local_rank, 4), 2, visible),
                      Catch::Contains("4 ranks of this host need a GPU each, and local rank " +
                                      std::to_string(local_rank) +
                                      " sees 2 GPUs with CUDA_VISIBLE_DEVICES=2,5; ") &&
                          Catch::Contains("srun --gpus-per-task=1"));
  }
  CHECK_THROWS_WITH(choose_gpu({}, 0, unset),
                    Catch::Contains("no GPU can be used: 0 GPUs, CUDA_VISIBLE_DEVICES is not set"));
  CHECK_THROWS_AS(choose_gpu({}, 0, unset), ConfigError);
}

TEST_CASE("a rank describes itself") {
  RunSpec spec;
  const WorldEnvironment world{1, 2, 1, 2, "127.0.0.1", 1};
  const RunStarted started = describe_rank(spec, world, at::kCPU);
  CHECK(started.rank == 1);
  CHECK(started.world_size == 2);
  CHECK(started.device == "cpu");
  CHECK_FALSE(started.device_name.empty());
  CHECK_FALSE(started.host.empty());
  CHECK(started.threads >= 1);
  CHECK_FALSE(started.torch_version.empty());
  CHECK(started.cuda_version.empty());
  CHECK(started.nccl_version.empty());
  CHECK(started.driver_version.empty());
  CHECK(started.gpu.empty());
  CHECK_FALSE(started.other_processes);

  const int64_t node_bytes = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  CHECK(started.device_memory_bytes == node_bytes);
  spec.memory_limit_gib = 0.5;
  CHECK(describe_rank(spec, world, at::kCPU).device_memory_bytes == 512ll << 20);
  spec.memory_limit_gib = 1e9;
  CHECK(describe_rank(spec, world, at::kCPU).device_memory_bytes == node_bytes);
}

}  // namespace fsdp::device_test
