#include "trainer/train/cpu_meter.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <fstream>

#include "tests/temporary_folder.h"

namespace fsdp::cpu_meter_test {

// A made-up /proc: the busy ticks of each CPU and the waiting time of threads.
class Proc : public TemporaryFolder {
 public:
  void say_busy(int64_t ticks) const {
    std::ofstream stat(*this / "stat");
    stat << "cpu  9 9 9 9 9 9 9 9 0 0\n";
    for (const int cpu : allowed_cpus()) {
      stat << "cpu" << cpu << ' ' << ticks << " 0 0 1000 1000 0 0 0 0 0\n";
    }
  }
  void say_waited(int thread, const std::string& schedstat) const {
    const auto folder = *this / ("self/task/" + std::to_string(thread));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "schedstat") << schedstat << '\n';
  }
};

void compute() {
  const std::clock_t begin = std::clock();
  while (std::clock() - begin < CLOCKS_PER_SEC / 100) continue;
}

TEST_CASE("use of CPUs is that of the stretches between resume and pause") {
  const Proc proc;
  CpuMeter meter(proc / ".");
  CHECK_FALSE(meter.use());
  proc.say_busy(100);
  proc.say_waited(1, "5000000 1000000 3");
  meter.resume();
  compute();
  meter.resume();
  CHECK_FALSE(meter.use());
  proc.say_busy(110);
  proc.say_waited(1, "5000000 4000000 5");
  proc.say_waited(2, "5000000 2000000 5");
  meter.pause();
  // The time after pause() does not count.
  proc.say_busy(1000);
  proc.say_waited(1, "5000000 900000000 50");
  compute();
  meter.pause();
  const auto cpus = static_cast<double>(allowed_cpus().size());
  const CpuUse first = meter.use().value();
  CHECK(first.cpus == cpu_list_text(allowed_cpus()));
  CHECK(first.cpu_count == std::ssize(allowed_cpus()));
  CHECK(first.cpus_busy_time_ms.value() == Approx(cpus * 100));
  CHECK(first.run_queue_wait_time_ms.value() == Approx(3 + 2));
  CHECK(first.cpu_time_ms > 9);
  CHECK(first.measured_time_ms > 9);

  meter.resume();
  proc.say_busy(1001);
  proc.say_waited(1, "5000000 902000000 60");
  meter.pause();
  const CpuUse both = meter.use().value();
  CHECK(both.cpus_busy_time_ms.value() == Approx(cpus * 110));
  CHECK(both.run_queue_wait_time_ms.value() == Approx(3 + 2 + 2));
}

TEST_CASE("use of CPUs that the kernel does not tell is absent, and not 0") {
  const Proc proc;
  SECTION("files that are not there") {}
  SECTION("waiting that is not counted") { proc.say_waited(1, "0 0 0"); }
  SECTION("a CPU that is not listed") { std::ofstream(proc / "stat") << "cpu  1 1 1 1 1 1 1 1\n"; }
  CpuMeter meter(proc / ".");
  meter.resume();
  meter.pause();
  CHECK(meter.use());
  CHECK_FALSE(meter.use()->cpus_busy_time_ms);
  CHECK_FALSE(meter.use()->run_queue_wait_time_ms);
}

TEST_CASE("this kernel's files are read") {
  CpuMeter meter;
  meter.resume();
  compute();
  meter.pause();
  CHECK(meter.use()->cpus_busy_time_ms);
}

}  // namespace fsdp::cpu_meter_test
