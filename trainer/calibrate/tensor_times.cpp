// Times work on flat tensors: optimizer, norms, conversions and copies.
#include <ATen/ATen.h>

#include <algorithm>

#include "trainer/calibrate/pieces.h"
#include "trainer/kernels/state_block.h"
#include "trainer/step/gradient_clipping.h"
#include "trainer/step/optimizer.h"
#include "trainer/strategy/precision.h"

namespace fsdp {
namespace {

// Tensors of this total size evict each other from the caches.
constexpr int64_t kBytesBeyondCaches = 256 << 20;
constexpr int64_t kMostUnits = 16;

int64_t units_of(int64_t numel) {
  return std::clamp<int64_t>(kBytesBeyondCaches / (4 * numel), 1, kMostUnits);
}

std::vector<at::Tensor> tensors(int64_t numel, at::ScalarType dtype, at::Device device) {
  std::vector<at::Tensor> tensors;
  for (int64_t i = 0; i < units_of(numel); ++i) {
    tensors.push_back(at::full({numel}, 1e-3, at::TensorOptions(dtype).device(device)));
  }
  return tensors;
}

// Times `call(i)`, which works on tensors[i], for each i. All tensors have the same size.
template <typename Call>
void time_each(TimedWork& timed, const char* name, const std::vector<at::Tensor>& tensors,
               Call&& call) {
  timed.repeat([&] {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const WorkScope work([&] { return Work{.name = name, .width = tensors[i].numel()}; });
      call(i);
    }
  });
}

void time_optimizer(const RunSpec& spec, int64_t numel, at::ScalarType dtype, at::Device device,
                    TimedWork& timed) {
  const std::vector<at::Tensor> parameters = tensors(numel, dtype, device);
  const std::vector<at::Tensor> gradients = tensors(numel, dtype, device);
  std::vector<FlatUnit> units;
  for (const at::Tensor& flat : parameters) {
    units.push_back({.parameters = flat,
                     .parts = {{.parameter = "weight", .parameter_numel = numel}},
                     .small_numel = numel < kLeastQuantized ? numel : 0});
  }
  Optimizer optimizer(spec.optimizer, units, spec.train.seed, device.type());
  int64_t number = 0;
  GradientVerdict verdict;
  if (spec.optimizer.gradient_clip_norm) {
    verdict.divisor = at::ones({}, at::TensorOptions(at::kFloat).device(device));
  }
  time_each(timed, kOptimizerWork, parameters, [&](size_t i) {
    optimizer.step(static_cast<int>(i), ++number, parameters[i], gradients[i], 1e-6, verdict);
  });
}

void time_norm(int64_t numel, at::ScalarType dtype, at::Device device, TimedWork& timed) {
  const std::vector<at::Tensor> gradients = tensors(numel, dtype, device);
  timed.repeat([&] {
    const WorkScope work([&] {
      return Work{.name = kNormWork,
                  .width = gradients.front().numel() * static_cast<int64_t>(gradients.size())};
    });
    global_norm_of(norms_of_parts(gradients, device.type()), nullptr, device);
  });
}

void time_copies(int64_t numel, const Dtypes& dtypes, Backend& backend, TimedWork& timed) {
  const at::Device device = backend.device();
  const std::vector<at::Tensor> from = tensors(numel, dtypes.parameters, device);
  const at::ScalarType other =
      dtypes.compute != dtypes.parameters ? dtypes.compute : dtypes.reduction;
  time_each(timed, kConvertWork, from,
            [&](size_t i) { from[i].to(other, /*non_blocking=*/false, /*copy=*/true); });
  time_each(timed, kAddWork, from, [&](size_t i) { from[i].add_(from[(i + 1) % from.size()]); });
  const at::Tensor on_host = backend.empty_host(numel, dtypes.parameters);
  time_each(timed, kToHostWork, from,
            [&](size_t i) { on_host.copy_(from[i], /*non_blocking=*/true); });
  time_each(timed, kToDeviceWork, from,
            [&](size_t i) { from[i].copy_(on_host, /*non_blocking=*/true); });
}

}  // namespace

std::vector<WorkTime> tensor_times(const RunSpec& spec, const ModelConfig& config, Backend& backend,
                                   ProcessGroup& world) {
  TimedWork timed(backend.device(), world);
  const Dtypes dtypes = dtypes_of(spec.precision);
  const at::Device where_stepped =
      spec.strategy.offload == Offload::kNone ? backend.device() : backend.host();
  // A shard with 8-bit state consists of whole blocks.
  const int64_t block = spec.optimizer.state_dtype == StateDtype::kInt8 ? kStateBlock : 1;
  for (const int64_t size : sizes_up_to(largest_module_numel(config))) {
    const int64_t numel = (size + block - 1) / block * block;
    time_optimizer(spec, numel, dtypes.parameters, where_stepped, timed);
    time_norm(numel, dtypes.parameters, where_stepped, timed);
    time_copies(numel, dtypes, backend, timed);
  }
  return timed.times();
}

}  // namespace fsdp
