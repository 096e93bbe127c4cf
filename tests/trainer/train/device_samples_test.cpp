#include "trainer/train/device_samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/temporary_folder.h"

namespace fsdp::device_samples_test {

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

std::vector<Event> events_in(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::vector<Event> events;
  for (std::string line; std::getline(lines, line);) {
    events.push_back(event_from_json_line(line).value());
  }
  return events;
}

// Waits until the file has `count` whole lines.
void wait_for_lines(const std::filesystem::path& file, int count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  for (int lines = 0; lines < count;) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    const std::string found = text.str();
    lines = static_cast<int>(std::count(found.begin(), found.end(), '\n'));
  }
}

constexpr std::chrono::duration<double> kOften{0.001};
constexpr std::chrono::duration<double> kNeverAgain{1e6};

TEST_CASE("the node's utilization is that between two samples") {
  const TemporaryFolder proc;
  write(proc / "meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n");
  NodeProbe node(proc / ".");
  //                         user nice system idle iowait irq softirq steal guest
  write(proc / "stat",
        "cpu  100 0 50 1000 20 0 0 0 70\ncpu0 1 1 1 1 1 1 1 1\n"
        "cpu3 1 1 1 1 1 1 1 1\nintr 7 8 9\n");
  const DeviceSample first = node.sample();
  CHECK(first.device == "cpu");
  CHECK_FALSE(first.utilization_percent);
  CHECK(first.memory_total_bytes == 1000 * 1024);
  CHECK(first.memory_used_bytes == 600 * 1024);
  CHECK(first.memory_free_bytes == 1024);
  CHECK(first.cpu_count == 2);
  // Busy: 10 user, 2 nice, 5 system, 3 irq, 4 softirq, 1 steal; idle: 65, and 10 waiting.
  write(proc / "stat", "cpu  110 2 55 1065 30 3 4 1 80\n");
  CHECK(node.sample().utilization_percent.value() == Approx(25));
  CHECK_FALSE(node.sample().utilization_percent);  // no time has passed
  write(proc / "stat", "cpu  210 2 55 1065 30 3 4 1 80\n");
  CHECK(node.sample().utilization_percent.value() == Approx(100));
}

TEST_CASE("what the kernel does not say is absent") {
  const TemporaryFolder proc;
  NodeProbe node(proc / ".");
  node.sample();
  const DeviceSample nothing = node.sample();
  CHECK_FALSE(nothing.utilization_percent);
  CHECK_FALSE(nothing.memory_used_bytes);
  CHECK_FALSE(nothing.memory_total_bytes);
  CHECK_FALSE(nothing.memory_free_bytes);
  CHECK_FALSE(nothing.cpu_count);
  write(proc / "meminfo", "MemTotal: 1000 kB\n");
  CHECK_FALSE(node.sample().memory_used_bytes);
}

TEST_CASE("this node's figures are to be had") {
  const DeviceSample sample = NodeProbe().sample();
  CHECK(sample.memory_total_bytes.value() > sample.memory_used_bytes.value());
  CHECK(sample.memory_used_bytes.value() > 0);
  CHECK(sample.memory_free_bytes.value() < sample.memory_total_bytes.value());
  CHECK(sample.cpu_count.value() > 0);
}

TEST_CASE("every GPU and the node are sampled at once; figures that NVML refuses are absent") {
  setenv("FAKE_NVML_GPUS", "80 40", 1);
  const TemporaryFolder folder;
  EventWriter writer(folder / "events");
  { const DeviceSampler sampler(writer, kNeverAgain, "n1", "a processor"); }
  const std::vector<Event> events = events_in(folder / "events");
  REQUIRE(events.size() == 3);
  const auto first = std::get<DeviceSample>(events[0].body);
  CHECK(first.host == "n1");
  CHECK(first.device == "gpu:0");
  CHECK(first.device_name == "Fake GPU");
  CHECK(first.utilization_percent == 50);
  CHECK(first.memory_used_bytes == int64_t{1} << 30);
  CHECK(first.memory_total_bytes == int64_t{80} << 30);
  CHECK(first.power_watts == 300.5);
  CHECK(first.temperature_celsius == 60);
  CHECK(first.sm_clock_mhz == 1400);
  CHECK(first.memory_clock_mhz == 2600);
  const auto second = std::get<DeviceSample>(events[1].body);
  CHECK(second.device == "gpu:1");
  CHECK_FALSE(second.power_watts);
  CHECK(second.temperature_celsius == 61);
  const auto node = std::get<DeviceSample>(events[2].body);
  CHECK(node.host == "n1");
  CHECK(node.device == "cpu");
  CHECK(node.device_name == "a processor");
  CHECK_FALSE(node.power_watts);
}

TEST_CASE("samples go on until the sampler is gone, between other events, in order") {
  setenv("FAKE_NVML_GPUS", "", 1);
  const TemporaryFolder folder;
  EventWriter writer(folder / "events");
  {
    const DeviceSampler sampler(writer, kOften, "n1", "a processor");
    for (int step = 0; step < 500; ++step) writer.write(StepDone{});
    wait_for_lines(folder / "events", 510);
  }
  writer.write(RunFinished{.steps = 500});
  const std::vector<Event> events = events_in(folder / "events");
  CHECK(std::holds_alternative<RunFinished>(events.back().body));
  for (size_t i = 0; i < events.size(); ++i) REQUIRE(events[i].sequence == int64_t(i));
}

TEST_CASE("a rank's last event stays its last") {
  const TemporaryFolder folder;
  EventWriter writer(folder / "events");
  const DeviceSampler sampler(writer, kOften, "n1", "a processor");
  wait_for_lines(folder / "events", 1);
  writer.write(RunFailed{.exit_code = 4, .reason = "the first cause"});
  writer.write(RunFailed{.exit_code = 1, .reason = "what followed from it"});
  const std::vector<Event> events = events_in(folder / "events");
  CHECK(std::get<RunFailed>(events.back().body).reason == "the first cause");
}

}  // namespace fsdp::device_samples_test
