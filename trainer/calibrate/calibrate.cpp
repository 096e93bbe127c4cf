// Calibrates a run by its pieces: modules, tensors, collectives. Keeps the median of all rounds.
#include "trainer/calibrate/calibrate.h"

#include <ATen/Parallel.h>
#include <torch/version.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "trainer/calibrate/pieces.h"
#include "trainer/model/families.h"

namespace fsdp {

ModelConfig few_blocks(const ModelConfig& config) {
  ModelConfig few = config;
  few.num_hidden_layers = kDepth;
  if (few.num_decoder_layers) few.num_decoder_layers = kDepth;
  return few;
}

int64_t largest_module_numel(const ModelConfig& config) {
  int64_t largest = 0;
  for (const auto& module : make_model(few_blocks(config)).modules) {
    int64_t numel = 0;
    for (const auto& parameter : module->parameters()) numel += parameter->numel();
    largest = std::max(largest, numel);
  }
  return largest;
}

std::vector<int64_t> sizes_up_to(int64_t largest) {
  std::vector<int64_t> sizes;
  for (int64_t shift = 10; shift >= 0; shift -= 2) {
    sizes.push_back(std::max<int64_t>(largest >> shift, 1));
  }
  return sizes;
}

Calibration calibrate(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                      ProcessGroup& world, int rounds) {
  Calibration calibration{.device = {},
                          .libtorch = TORCH_VERSION,
                          .ranks = world.size(),
                          .threads = at::get_num_threads(),
                          .times = {}};
  std::map<std::tuple<std::string, int64_t, int64_t>, std::vector<double>> times_ms;
  for (int round = 0; round < rounds; ++round) {
    for (const auto times_of : {module_times, tensor_times, collective_times}) {
      for (const WorkTime& time : times_of(spec, config, backend, world)) {
        times_ms[{time.work, time.rows, time.width}].push_back(time.time_ms);
      }
    }
  }
  for (auto& [key, of_rounds] : times_ms) {
    const auto& [work, rows, width] = key;
    std::ranges::nth_element(of_rounds, of_rounds.begin() + std::ssize(of_rounds) / 2);
    const double median_ms = of_rounds[static_cast<size_t>(std::ssize(of_rounds) / 2)];
    calibration.times.push_back({work, rows, width, std::max(median_ms, kShortestWork_ms)});
  }
  return calibration;
}

}  // namespace fsdp
