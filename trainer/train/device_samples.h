#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "contract/record/event.h"
#include "trainer/train/processor_times.h"

// Samples of the node's devices during a run.
namespace fsdp {

// Reads the use of the node's processors and memory from the kernel's files.
class NodeProbe {
 public:
  explicit NodeProbe(std::filesystem::path proc = "/proc");

  // Reports the utilization since the last call; it is absent at the first call. Values that a file
  // lacks are absent too. `host` and `device_name` are left empty.
  DeviceSample sample();

 private:
  std::filesystem::path proc_;
  std::optional<ProcessorTime> last_;
};

// Writes a DeviceSample of each GPU of this node and one of the node itself, at once and then every
// `every`. A thread of its own does this until the sampler is destroyed. Without NVIDIA's driver
// there are no GPUs. `events` outlives it.
class DeviceSampler {
 public:
  DeviceSampler(EventWriter& events, std::chrono::duration<double> every, std::string host,
                std::string processor_name);
  ~DeviceSampler();
  DeviceSampler(const DeviceSampler&) = delete;
  DeviceSampler& operator=(const DeviceSampler&) = delete;

 private:
  void run();
  void sample_until_stopped();

  EventWriter& events_;
  const std::chrono::steady_clock::duration every_;
  const std::string host_;
  const std::string processor_name_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fsdp
