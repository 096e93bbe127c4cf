// Measures a rank's CPU time from /proc, over periods and not for each step.
#include "trainer/train/cpu_meter.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "trainer/train/processor_times.h"

namespace fsdp {
namespace {

double milliseconds(const timeval& time) {
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
}

double process_cpu_time_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
}

// Includes each thread, because a library may have bound single threads.
Cpus allowed_cpus_of_threads() {
  Cpus cpus;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    cpus.merge(allowed_cpus(std::stoi(thread.path().filename())));
  }
  return cpus;
}

void add_difference(std::optional<double>& sum, std::optional<double> from,
                    std::optional<double> to) {
  sum = sum && from && to ? std::optional(*sum + std::max(0.0, *to - *from)) : std::nullopt;
}

}  // namespace

CpuMeter::CpuMeter(std::filesystem::path proc) : proc_(std::move(proc)) {
  use_.cpus_busy_time_ms = 0;
  use_.run_queue_wait_time_ms = 0;
}

void CpuMeter::resume() {
  if (resumed_) return;
  if (cpus_.empty()) cpus_ = allowed_cpus_of_threads();
  resumed_ = read();
}

void CpuMeter::pause() {
  if (!resumed_) return;
  const Reading paused = read();
  const std::chrono::duration<double, std::milli> time = paused.time - resumed_->time;
  use_.measured_time_ms += time.count();
  use_.cpu_time_ms += paused.cpu_time_ms - resumed_->cpu_time_ms;
  add_difference(use_.cpus_busy_time_ms, resumed_->cpus_busy_time_ms, paused.cpus_busy_time_ms);
  add_difference(use_.run_queue_wait_time_ms, resumed_->run_queue_wait_time_ms,
                 paused.run_queue_wait_time_ms);
  resumed_.reset();
}

std::optional<CpuUse> CpuMeter::use() const {
  if (!(use_.measured_time_ms > 0)) return std::nullopt;
  CpuUse use = use_;
  use.cpus = cpu_list_text(cpus_);
  use.cpu_count = std::ssize(cpus_);
  return use;
}

CpuMeter::Reading CpuMeter::read() const {
  return {.time = std::chrono::steady_clock::now(),
          .cpu_time_ms = process_cpu_time_ms(),
          .cpus_busy_time_ms = cpus_busy_time_ms(),
          .run_queue_wait_time_ms = run_queue_wait_time_ms()};
}

std::optional<double> CpuMeter::cpus_busy_time_ms() const {
  const std::map<std::string, ProcessorTime> times = processor_times(proc_);
  int64_t ticks = 0;
  for (const int cpu : cpus_) {
    const auto found = times.find("cpu" + std::to_string(cpu));
    if (found == times.end()) return std::nullopt;
    ticks += found->second.busy;
  }
  return 1e3 * static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Sums the waits of all threads. A thread's schedstat is "CPU_TIME_NS WAIT_TIME_NS TIMESLICES". A
// kernel that does not count these reports zeros.
std::optional<double> CpuMeter::run_queue_wait_time_ms() const {
  int64_t all_waits_ns = 0;
  int64_t all_timeslices = 0;
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(proc_ / "self/task", error)) {
    std::ifstream file(thread.path() / "schedstat");
    int64_t cpu_time_ns = 0, wait_ns = 0, timeslices = 0;
    if (!(file >> cpu_time_ns >> wait_ns >> timeslices)) continue;
    all_waits_ns += wait_ns;
    all_timeslices += timeslices;
  }
  if (all_timeslices == 0) return std::nullopt;
  return 1e-6 * static_cast<double>(all_waits_ns);
}

}  // namespace fsdp
