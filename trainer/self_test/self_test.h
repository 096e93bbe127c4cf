#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"

// Whether the trainer computes on the device at hand what it should: fsdp-train --self-test.
namespace fsdp {

struct SelfTestRow {
  std::string name;
  std::string figure;  // what was measured
  bool passed = true;
};

using ShowRow = std::function<void(const SelfTestRow&)>;

// Kernels of one set, forward and backward, against formulas in fp64 on the CPU whose gradients are
// autograd's. `set`: its name, for the rows.
void check_kernels(Kernels& kernels, const std::string& set, at::Device device,
                   const ShowRow& show);

// Steps of a small model: with and without offload and activation checkpointing, sharded over one
// rank with the device's own communication, and the memory that they take against what is planned
// without the device.
void check_steps(at::Device device, KernelSet kernels, const ShowRow& show);

// Steps of AdamW that round to bfloat16, element by element against the same steps on the CPU.
void check_optimizer(at::Device device, const ShowRow& show);

// How fast products and copies of the sizes of a model are, and a step of AdamW; they pass always.
void measure_rates(at::Device device, const ShowRow& show);

// All of them on `device`, a row as soon as it is known. Returns whether all passed.
bool run_self_test(at::Device device, const ShowRow& show);

}  // namespace fsdp
