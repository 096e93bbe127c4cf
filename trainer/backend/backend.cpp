// Makes the backend of a CPU, a GPU or a plan. cuBLAS begins before weights fill the GPU.
#include "trainer/backend/backend.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "trainer/kernels/aten_kernels.h"
#include "trainer/memory/counting_allocator.h"
#ifdef FSDP_CUDA
#include "trainer/backend/cuda_libraries.h"
#include "trainer/memory/cuda_memory.h"
#endif
#include "trainer/backend/make_kernels.h"

namespace fsdp {

Backend::Backend(at::Device device, c10::DeviceType planned_for, std::shared_ptr<Streams> streams,
                 std::unique_ptr<Kernels> kernels, std::unique_ptr<MemoryProbe> memory)
    : device_(device),
      planned_for_(planned_for),
      streams_(std::move(streams)),
      kernels_(std::move(kernels)),
      memory_(std::move(memory)) {}

at::Tensor Backend::empty_host(int64_t numel, at::ScalarType dtype) const {
#ifdef FSDP_CUDA
  if (device_.is_cuda()) return empty_registered(numel, dtype);
#endif
  const UncountedMemory on_the_host;
  return at::empty({numel}, at::TensorOptions(dtype).device(host()));
}

double Backend::read(const at::Tensor& number) const {
  return number.is_meta() ? 0 : number.item<double>();
}

std::unique_ptr<Backend> make_backend(at::Device device, KernelSet kernels) {
  require_kernels_for(kernels, device);
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
#ifdef FSDP_CUDA
  if (device.is_cuda()) begin_cublas(device);
#endif
  return std::make_unique<Backend>(
      device, device.type(), make_streams(device),
      make_kernels(kernels, device.type(), capability_of(device).major), make_memory_probe(device));
}

std::unique_ptr<Backend> make_meta_backend(c10::DeviceType planned_for, KernelSet kernels,
                                           std::shared_ptr<Streams> streams,
                                           int64_t compute_capability) {
  constexpr int64_t kPerMajor = 10;
  const int capability_major =
      compute_capability > 0 ? static_cast<int>(compute_capability / kPerMajor) : kHopper;
  const at::Device meta(at::kMeta);
  if (!streams) streams = make_streams(meta);
  MetaAllocator::instance().count_numbers(planned_for != at::kCPU);
  return std::make_unique<Backend>(meta, planned_for, std::move(streams),
                                   make_kernels(kernels, planned_for, capability_major),
                                   make_memory_probe(meta));
}

}  // namespace fsdp
