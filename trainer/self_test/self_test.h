#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "trainer/backend/backend.h"
#include "trainer/comm/process_group.h"
#include "trainer/model/model.h"

// Whether the trainer computes on the device at hand what it should: fsdp-train --self-test.
namespace fsdp {

struct SelfTestRow {
  std::string name;
  std::string found;       // what was measured
  std::string expected{};  // empty: it is not judged
  bool passed = true;
};

using ShowRow = std::function<void(const SelfTestRow&)>;

// A FillParameter: weights that differ from each other, the same each time.
void fill_with_sine(const Parameter& parameter, int64_t offset, const at::Tensor& out);

// Kernels, forward and backward, against formulas in fp64 on the CPU whose gradients are
// autograd's, in memory that holds NaN where nobody has written.
void check_kernels(Kernels& kernels, at::Device device, const ShowRow& show);

// Kernels for tensors of more than 2^31 elements, against the same of their last rows alone. A
// step of one layer of a 7B model. For a GPU.
void check_large_sizes(at::Device device, KernelSet kernels, const ShowRow& show);

// Steps of a small model in each precision: with offload, activation checkpointing, accumulation,
// rows of two lengths, and sharded over one rank with the device's own communication. Their memory
// against what is planned without the device.
void check_steps(at::Device device, KernelSet kernels, const ShowRow& show);

// A run with an evaluation and a checkpoint, from which another goes on.
void check_runs(at::Device device, const ShowRow& show);

// Steps of AdamW that round to bfloat16, element by element against the same steps on the CPU.
void check_optimizer(at::Device device, const ShowRow& show);

// How fast products, attention and copies of the sizes of a model are, and a step of AdamW.
void measure_rates(at::Device device, const ShowRow& show);

// Sums, and steps that are sharded over all ranks of `world`; how fast they exchange. Every rank
// calls it.
void check_ranks(const WorldEnvironment& world, at::Device device, const ShowRow& show);

// How fast all ranks gather, reduce and sum. Every rank calls it.
void measure_exchange(ProcessGroup& group, at::Device device, const ShowRow& show);

// All of them on `device`, a line as soon as it is known. Headings say what a failure means. Ranks
// other than 0 show only what fails. Returns whether all passed.
bool run_self_test(const WorldEnvironment& world, at::Device device, std::ostream& out);

}  // namespace fsdp
