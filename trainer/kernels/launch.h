#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDAStream.h>

#include <initializer_list>
#include <vector>

// How a kernel that is not one of ATen's operators is started.
namespace fsdp {

// The current stream of the tensor's GPU; the default stream for a tensor in host memory.
inline cudaStream_t stream_of(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return nullptr;
  return c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream();
}

// Calls start(stream) for the device of `writes`, unless that is meta. Observers of ATen's
// operators (profilers, counts of launches and bytes) see it under `name`, on meta as well: `reads`
// are its inputs, `writes` its outputs, and what is in both is changed in place. Undefined tensors
// are left out.
template <typename Start>
void launch(const char* name, std::initializer_list<at::Tensor> reads,
            std::initializer_list<at::Tensor> writes, Start&& start) {
  std::vector<c10::IValue> inputs;
  at::RecordFunction record(at::RecordScope::FUNCTION);
  if (record.isActive()) {
    std::vector<c10::IValue> outputs;
    for (const at::Tensor& read : reads) {
      if (read.defined()) inputs.emplace_back(read);
    }
    for (const at::Tensor& write : writes) {
      if (write.defined()) outputs.emplace_back(write);
    }
    record.before(name, &inputs);
    record.setOutputs(std::move(outputs));
  }
  const at::Tensor& output = *writes.begin();
  if (!output.is_meta()) start(stream_of(output));
}

}  // namespace fsdp
