// Samples devices on a thread. A failed sample ends no run.
#include "trainer/train/device_samples.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "contract/devices/nvml.h"

namespace fsdp {
namespace {

// Returns the bytes of a line such as "MemTotal:  16384 kB"; nullopt if the line has another key.
std::optional<int64_t> kilobytes(const std::string& line, const std::string& key) {
  if (!line.starts_with(key + ":")) return std::nullopt;
  std::istringstream rest(line.substr(key.size() + 1));
  int64_t number = 0;
  if (!(rest >> number)) return std::nullopt;
  return number * 1024;
}

// The GPUs of this node, and the library that reads them.
struct Gpus {
  std::unique_ptr<Nvml> nvml;
  std::vector<Gpu> list;
};

Gpus open_gpus() {
  try {
    Gpus gpus{Nvml::open(), {}};
    if (gpus.nvml) gpus.list = gpus.nvml->gpus();
    return gpus;
  } catch (const std::exception& error) {
    std::cerr << "fsdp-train: no samples of GPUs: " << error.what() << std::endl;
    return {};
  }
}

}  // namespace

NodeProbe::NodeProbe(std::filesystem::path proc) : proc_(std::move(proc)) {}

DeviceSample NodeProbe::sample() {
  DeviceSample sample;
  sample.device = "cpu";
  const std::map<std::string, ProcessorTime> times = processor_times(proc_);
  const auto whole = times.find("cpu");
  const auto now = whole == times.end() ? std::nullopt : std::optional(whole->second);
  if (now && times.size() > 1) sample.cpu_count = std::ssize(times) - 1;
  if (now && last_ && now->all > last_->all) {
    const double part = double(now->busy - last_->busy) / double(now->all - last_->all);
    sample.utilization_percent = 100 * std::clamp(part, 0.0, 1.0);
  }
  last_ = now;

  std::ifstream memory(proc_ / "meminfo");
  std::optional<int64_t> available;
  for (std::string line; std::getline(memory, line);) {
    if (const auto bytes = kilobytes(line, "MemTotal")) sample.memory_total_bytes = bytes;
    if (const auto bytes = kilobytes(line, "MemFree")) sample.memory_free_bytes = bytes;
    if (const auto bytes = kilobytes(line, "MemAvailable")) available = bytes;
  }
  if (sample.memory_total_bytes && available) {
    sample.memory_used_bytes = *sample.memory_total_bytes - *available;
  }
  return sample;
}

DeviceSampler::DeviceSampler(EventWriter& events, std::chrono::duration<double> every,
                             std::string host, std::string processor_name)
    : events_(events),
      every_(std::chrono::duration_cast<std::chrono::steady_clock::duration>(every)),
      host_(std::move(host)),
      processor_name_(std::move(processor_name)),
      thread_([this] { run(); }) {}

DeviceSampler::~DeviceSampler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void DeviceSampler::run() {
  try {
    sample_until_stopped();
  } catch (const std::exception& error) {
    std::cerr << "fsdp-train: no more device samples: " << error.what() << std::endl;
  }
}

void DeviceSampler::sample_until_stopped() {
  const Gpus gpus = open_gpus();
  NodeProbe node;
  auto next = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    std::vector<DeviceSample> samples;
    for (const Gpu& gpu : gpus.list) samples.push_back(gpus.nvml->sample(gpu));
    samples.push_back(node.sample());
    samples.back().device_name = processor_name_;
    for (DeviceSample& sample : samples) {
      sample.host = host_;
      events_.write(std::move(sample));
    }
    next = std::max(next + every_, std::chrono::steady_clock::now());
    lock.lock();
  } while (!wake_.wait_until(lock, next, [this] { return stopping_; }));
}

}  // namespace fsdp
