#pragma once

// Limits that follow from the compute capability of a fake GPU.
namespace fsdp::fake_cuda {

inline constexpr int kThreadsPerBlock = 1024;
inline constexpr int kSharedBytes = 48 << 10;  // of a block, unless a kernel asks for more

struct Limits {
  int shared_kib;           // of a multiprocessor
  int shared_kib_of_block;  // that a kernel may ask for
  int threads;              // of a multiprocessor
  int blocks;               // of a multiprocessor
};

int capability_of(int device);  // 80 for 8.0
Limits limits_of(int device);
bool is_device(int device);

}  // namespace fsdp::fake_cuda
