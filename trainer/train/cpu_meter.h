#pragma once

#include <chrono>
#include <filesystem>
#include <optional>

#include "contract/record/event.h"
#include "trainer/train/cpu_binding.h"

namespace fsdp {

// Measures this process's CPU time, and the use by all processes of the CPUs that its threads may
// run on. The waiting time of threads that end meanwhile is lost. It reads /proc only where periods
// begin and end: on a large host, reading takes milliseconds.
class CpuMeter {
 public:
  explicit CpuMeter(std::filesystem::path proc = "/proc");

  // Begins a measured period, unless one has begun.
  void resume();
  // Ends the period, if one has begun.
  void pause();
  // Returns the sum over all ended periods; nullopt if there is none.
  std::optional<CpuUse> use() const;

 private:
  struct Reading {
    std::chrono::steady_clock::time_point time;
    double cpu_time_ms = 0;
    std::optional<double> cpus_busy_time_ms;
    std::optional<double> run_queue_wait_time_ms;
  };
  Reading read() const;
  std::optional<double> cpus_busy_time_ms() const;
  std::optional<double> run_queue_wait_time_ms() const;

  std::filesystem::path proc_;
  Cpus cpus_;
  std::optional<Reading> resumed_;
  CpuUse use_;
};

}  // namespace fsdp
