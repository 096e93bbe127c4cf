#pragma once

#include <c10/core/Device.h>

// The CUDA libraries that do not allocate through libtorch's allocator; only in a CUDA build.
namespace fsdp {

// Makes this thread's cuBLAS handle and the workspace of the current stream. By default, they are
// made at the first product, when the GPU may be full. cuBLAS then only says that it is not
// initialised. On failure, throws c10::OutOfMemoryError if little memory is free, else c10::Error
// with possible causes.
void begin_cublas(c10::Device device);

// Makes cuDNN's handle in the same way. libtorch would make it at the first attention.
void begin_cudnn(c10::Device device);

}  // namespace fsdp
