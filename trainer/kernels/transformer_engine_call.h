#pragma once

#include <ATen/ATen.h>
#include <transformer_engine/transformer_engine.h>

#include <limits>
#include <utility>
#include <vector>

#include "trainer/kernels/cuda_stream.h"
#include "trainer/kernels/launch.h"

// Calls of functions of Transformer Engine's C API with tensors; for transformer_engine*.cpp.
namespace fsdp::te {

inline transformer_engine::DType dtype_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return transformer_engine::DType::kFloat32;
    case at::kHalf:
      return transformer_engine::DType::kFloat16;
    case at::kBFloat16:
      return transformer_engine::DType::kBFloat16;
    case at::kByte:
      return transformer_engine::DType::kByte;
    default:
      TORCH_CHECK(false, "Transformer Engine is not called with ", tensor.scalar_type());
  }
}

// A tensor as an argument of one call. An undefined tensor is passed as no tensor.
class Handle {
 public:
  explicit Handle(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const std::vector<size_t> shape(tensor.sizes().begin(), tensor.sizes().end());
    wrapper_ = transformer_engine::TensorWrapper(tensor.data_ptr(), shape, dtype_of(tensor));
  }
  operator NVTETensor() const { return wrapper_.data(); }

 private:
  transformer_engine::TensorWrapper wrapper_;
};

inline void check_contiguous(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(!tensor.defined() || tensor.is_contiguous(), "a tensor of shape ", tensor.sizes(),
                " with strides ", tensor.strides(), " should be contiguous");
  }
}

inline void check_shape(const at::Tensor& tensor, at::IntArrayRef shape) {
  TORCH_CHECK(tensor.sizes() == shape, "a tensor of shape ", tensor.sizes(), " should be ", shape);
}

inline void check_type(at::ScalarType type, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.scalar_type() == type, "a tensor of ", tensor.scalar_type(),
                " should be of ", type);
  }
}

// Refuses tensors that are too large for kernels with 32-bit counts of elements.
inline void check_size(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.numel() <= std::numeric_limits<int32_t>::max(), "a tensor of shape ",
              tensor.sizes(), " has more than 2^31 - 1 elements: use a smaller micro-batch");
}

template <typename Call>
void with_torch_errors(const char* name, Call&& call) {
  try {
    call();
  } catch (const std::exception& error) {
    TORCH_CHECK(false, name, ": ", error.what());
  }
}

template <typename Call>
void launch_with_torch_errors(const char* name, const Tensors& reads, const Tensors& writes,
                              Call&& call) {
  launch(name, reads, writes,
         [&] { with_torch_errors(name, [&] { call(stream_of(writes.front())); }); });
}

// Launches call(stream).
template <typename Call>
void run(const char* name, const Tensors& reads, const Tensors& writes, Call&& call) {
  check_contiguous(reads);
  check_contiguous(writes);
  launch_with_torch_errors(name, reads, writes, std::forward<Call>(call));
}

// Launches call(workspace, stream) after a first call that only asks for the size of the workspace.
// On meta the size is `planned_bytes`.
template <typename Call>
void run_with_workspace(const char* name, const Tensors& reads, const Tensors& writes,
                        int64_t planned_bytes, Call&& call) {
  check_contiguous(reads);
  check_contiguous(writes);
  const at::Tensor& output = *writes.begin();
  int64_t bytes = planned_bytes;
  if (!output.is_meta()) {
    const transformer_engine::TensorWrapper wanted;
    with_torch_errors(name, [&] { call(wanted.data(), stream_of(output)); });
    bytes = static_cast<int64_t>(wanted.numel());
  }
  const at::Tensor workspace = at::empty({bytes}, output.options().dtype(at::kByte));
  launch_with_torch_errors(name, reads, writes,
                           [&](cudaStream_t stream) { call(Handle(workspace), stream); });
}

}  // namespace fsdp::te
