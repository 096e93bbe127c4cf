#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/comm/process_group.h"

// Checks that the trainer computes correctly on the present device: fsdp-train --self-test.
namespace fsdp {

struct SelfTestRow {
  std::string name;
  std::string found;       // what was measured
  std::string expected{};  // empty: the row is not judged
  bool passed = true;
};

using ShowRow = std::function<void(const SelfTestRow&)>;

// Compares kernels, forward and backward, with formulas in fp64 on the CPU and autograd's gradients
// of these; of NF4, bits. First fills free memory with NaN, to find reads of memory that was never
// written.
void check_kernels(Kernels& kernels, at::Device device, const ShowRow& show);

// Compares kernels on tensors of more than 2^31 elements with their results on the last rows alone.
// Also runs steps of one layer of a 7B model. Only for GPUs.
void check_large_sizes(at::Device device, KernelSet kernels, const ShowRow& show);

// Checks steps of a small model: in fp32 on a CPU, in bf16_true, bf16_mixed and fp16_mixed on a
// GPU. Covers offload, activation checkpointing, accumulation and rows of two lengths. Also shards
// over one rank with the device's own communication. Compares adapters, quantized weights and
// quantized state with the CPU, and the same steps with each other. Compares the memory with a plan
// made without the device, and trains on after an error for lack of memory.
void check_steps(at::Device device, KernelSet kernels, const ShowRow& show);

// Checks a run with an evaluation and a checkpoint, and another run that resumes from it.
void check_runs(at::Device device, const ShowRow& show);

// Compares AdamW's steps on bfloat16 tensors and int8 state with the same steps on the CPU, element
// by element.
void check_optimizer(at::Device device, const ShowRow& show);

// Measures the speed of products, attention and copies of a model's sizes, and of an AdamW step.
void measure_rates(at::Device device, const ShowRow& show);

// Checks sums, and steps that are sharded over all ranks of `world`, and measures their exchange.
// Every rank calls it. `notice` tells the other ranks if this one fails.
void check_ranks(const WorldEnvironment& world, at::Device device, FailureNotice& notice,
                 const ShowRow& show);

// Measures how fast all ranks gather, reduce and sum. Every rank calls it.
void measure_exchange(ProcessGroup& group, at::Device device, const ShowRow& show);

// The names that run_self_test() takes; the first stands for all parts.
std::vector<std::string> self_test_parts();

// Runs one part's checks on `device`, or all, and prints each line as soon as it is known. Headings
// say what a failure means. Ranks other than 0 print only failures. Returns true if all passed.
// Throws what the part of all ranks throws: only the caller can tell the others by `notice`.
bool run_self_test(const std::string& part, const WorldEnvironment& world, at::Device device,
                   FailureNotice& notice, std::ostream& out);

}  // namespace fsdp
