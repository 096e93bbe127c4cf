#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "contract/spec/run_spec.h"
#include "trainer/backend/streams.h"
#include "trainer/kernels/kernels.h"
#include "trainer/memory/memory_probe.h"

namespace fsdp {

// Where a step runs: a CPU, a GPU, or no device (meta), where it allocates and orders its work as
// it would on the kind of device that is planned for, and computes nothing.
class Backend {
 public:
  Backend(at::Device device, c10::DeviceType planned_for, std::shared_ptr<Streams> streams,
          std::unique_ptr<Kernels> kernels, std::unique_ptr<MemoryProbe> memory);

  // Of tensors.
  at::Device device() const { return device_; }
  // Of tensors in the host's memory: the CPU, or meta.
  at::Device host() const { return device_.is_meta() ? device_ : at::Device(at::kCPU); }
  c10::DeviceType planned_for() const { return planned_for_; }

  Streams& streams() { return *streams_; }
  Kernels& kernels() { return *kernels_; }
  MemoryProbe& memory() { return *memory_; }

  // [numel] of the host's memory that the device copies to and from while it works on: registered
  // with CUDA, exactly as large as asked for, and not counted as the device's.
  at::Tensor empty_host(int64_t numel, at::ScalarType dtype) const;

  // What a tensor of one element holds; waits for the device. On meta 0.
  double read(const at::Tensor& number) const;

 private:
  at::Device device_;
  c10::DeviceType planned_for_;
  std::shared_ptr<Streams> streams_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<MemoryProbe> memory_;
};

// That of a CPU or a GPU, which becomes this thread's. A GPU's first allocation is cuBLAS's
// workspace, which plans count. Throws ConfigError when the kernels are not
// to be had.
std::unique_ptr<Backend> make_backend(at::Device device, KernelSet kernels = KernelSet::kAuto);
// `streams`: null for those of make_streams. `compute_capability`: of the GPU that is planned for,
// 80 is 8.0; 0: not known, and taken for Hopper's.
std::unique_ptr<Backend> make_meta_backend(c10::DeviceType planned_for,
                                           KernelSet kernels = KernelSet::kAuto,
                                           std::shared_ptr<Streams> streams = nullptr,
                                           int64_t compute_capability = 0);

}  // namespace fsdp
