#pragma once

namespace fsdp {

// The types that our own CUDA kernels read and write; they compute in fp32.
enum class FloatType { kFloat32, kFloat16, kBFloat16 };

}  // namespace fsdp
