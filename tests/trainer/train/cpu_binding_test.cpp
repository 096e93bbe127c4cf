#include "trainer/train/cpu_binding.h"

#include <sched.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <future>
#include <thread>

#include "tests/temporary_folder.h"

namespace fsdp::cpu_binding_test {

constexpr const char* kPciId = "0000:3b:00.0";

// Writes a /sys that lists these CPUs as local to the device.
void write_local_cpus(const std::filesystem::path& sysfs, const std::string& list) {
  const auto folder = sysfs / "bus/pci/devices" / kPciId;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "local_cpulist") << list << '\n';
}

Cpus cpus_of_this_thread() {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof(mask), &mask);
  Cpus cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.insert(cpu);
  }
  return cpus;
}

void allow(const Cpus& cpus) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) CPU_SET(cpu, &mask);
  sched_setaffinity(0, sizeof(mask), &mask);
}

TEST_CASE("lists of CPUs are read and written as Linux does") {
  CHECK(parse_cpu_list("0-3,8") == Cpus{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("5") == Cpus{5});
  CHECK(parse_cpu_list("") == Cpus{});
  for (const char* wrong : {"a", "1,", ",1", "3-1", "1-", "-1", "1 2", "0-99999999999", "0-8192"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_cpu_list(wrong));
  }
  CHECK(cpu_list_text({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
  CHECK(cpu_list_text({}).empty());
}

TEST_CASE("a rank is bound to the allowed CPUs next to its GPU, or left as it is") {
  const Cpus all{0, 1, 2, 3, 4, 5, 6, 7};
  const Cpus low{0, 1, 2, 3};
  const Cpus high{4, 5, 6, 7};
  CHECK(cpus_to_bind_to(all, {low, high}, 1) == high);
  CHECK(cpus_to_bind_to(all, {low, low, high, high}, 1) == low);
  CHECK(cpus_to_bind_to({2, 3, 4, 5, 6}, {low, high}, 1) == Cpus{4, 5, 6});
  CHECK_FALSE(cpus_to_bind_to({2, 3, 4, 5, 6}, {low, high}, 0));  // 2 CPUs of 5 are less than half
  CHECK_FALSE(cpus_to_bind_to(all, {low, low}, 0));               // both would share four of eight
  CHECK_FALSE(cpus_to_bind_to(all, {high}, 0));                   // one rank may use all
  CHECK_FALSE(cpus_to_bind_to({0, 1, 2, 3, 8}, {low, high}, 1));  // no CPU is allowed and local
  CHECK_FALSE(cpus_to_bind_to({4, 5}, {low, high}, 1));           // the launcher has chosen
  CHECK_FALSE(cpus_to_bind_to(all, {all, all}, 1));
  CHECK_FALSE(cpus_to_bind_to(all, {{}, {}}, 1));  // the host lists no CPUs
}

TEST_CASE("what a host says of a device's CPUs") {
  const TemporaryFolder sysfs;
  CHECK(cpus_local_to(kPciId, sysfs.path()).empty());
  write_local_cpus(sysfs.path(), "0-1,4");
  CHECK(cpus_local_to(kPciId, sysfs.path()) == Cpus{0, 1, 4});
  write_local_cpus(sysfs.path(), "many");
  CHECK(cpus_local_to(kPciId, sysfs.path()).empty());
}

TEST_CASE("all threads of a rank are bound, those that run and those that begin") {
  const Cpus before = cpus_of_this_thread();
  if (before.size() < 2) return;  // there is nothing to choose
  const TemporaryFolder sysfs;
  const int first = *before.begin();
  write_local_cpus(sysfs.path(), std::to_string(first));
  std::promise<void> bound;
  auto running = std::async(std::launch::async, [&] {
    bound.get_future().wait();
    return cpus_of_this_thread();
  });
  const std::vector<std::string> unknown(before.size(), "0000:00:00.0");
  CHECK(bind_to_local_cpus(unknown, 1, sysfs.path()).empty());
  CHECK(cpus_of_this_thread() == before);
  std::vector<std::string> devices = unknown;
  devices[0] = kPciId;
  CHECK(bind_to_local_cpus(devices, 0, sysfs.path()) == std::to_string(first));
  bound.set_value();
  CHECK(running.get() == Cpus{first});
  CHECK(std::async(std::launch::async, cpus_of_this_thread).get() == Cpus{first});
  allow(before);
}

}  // namespace fsdp::cpu_binding_test
