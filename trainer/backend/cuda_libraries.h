#pragma once

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <string>

// The libraries of CUDA that allocate beside libtorch's allocator; only in a CUDA build.
namespace fsdp {

// Makes this thread's handle of cuBLAS and the workspace of the current stream. libtorch would make
// both at the first product. The GPU may then be full, and cuBLAS says only that it is not
// initialised. Throws as fail_to_begin does.
void begin_cublas(c10::Device device);

// The same of cuDNN's handle, which libtorch would make at the first attention.
void begin_cudnn(c10::Device device);

// Throws c10::OutOfMemoryError if little of the GPU's memory is free, else c10::Error with what may
// be wrong. `error` is what `library` said.
[[noreturn]] void fail_to_begin(const std::string& library, c10::Device device,
                                const c10::Error& error);

}  // namespace fsdp
