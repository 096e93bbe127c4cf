#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "contract/spec/run_spec.h"
#include "trainer/backend/streams.h"
#include "trainer/kernels/kernels.h"
#include "trainer/memory/memory_probe.h"

namespace fsdp {

// The place where a step runs: a CPU, a GPU, or no device (meta). On meta, it computes nothing, but
// allocates and orders its work as the planned kind of device would.
class Backend {
 public:
  Backend(at::Device device, c10::DeviceType planned_for, std::shared_ptr<Streams> streams,
          std::unique_ptr<Kernels> kernels, std::unique_ptr<MemoryProbe> memory);

  // The device of tensors.
  at::Device device() const { return device_; }
  // The device of tensors in host memory: the CPU, or meta.
  at::Device host() const { return device_.is_meta() ? device_ : at::Device(at::kCPU); }
  c10::DeviceType planned_for() const { return planned_for_; }

  Streams& streams() { return *streams_; }
  Kernels& kernels() { return *kernels_; }
  MemoryProbe& memory() { return *memory_; }

  // Returns host memory [numel] for copies to and from the device that run beside other work. On a
  // GPU, the memory is registered with CUDA. It does not count as the device's.
  at::Tensor empty_host(int64_t numel, at::ScalarType dtype) const;

  // Returns the value of a one-element tensor; waits for the device. Returns 0 on meta.
  double read(const at::Tensor& number) const;

 private:
  at::Device device_;
  c10::DeviceType planned_for_;
  std::shared_ptr<Streams> streams_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<MemoryProbe> memory_;
};

// Makes the backend of a CPU or a GPU, which becomes this thread's device. A GPU's first allocation
// is cuBLAS's workspace, which plans count. Throws ConfigError if the kernels are unavailable.
std::unique_ptr<Backend> make_backend(at::Device device, KernelSet kernels = KernelSet::kAuto);
// Makes the backend of plans. If `streams` is null, it has the streams of make_streams.
// `compute_capability` is the planned GPU's, such as 80 for 8.0; 0: unknown, treated as Hopper's.
std::unique_ptr<Backend> make_meta_backend(c10::DeviceType planned_for,
                                           KernelSet kernels = KernelSet::kAuto,
                                           std::shared_ptr<Streams> streams = nullptr,
                                           int64_t compute_capability = 0);

}  // namespace fsdp
