#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp {

enum class Initialization { kNormal, kOnes, kZeros };  // kNormal: of mean 0
// kNorm: a norm's weight; kBias: any bias; kAdapter: A or B of LoRA.
enum class ParameterRole { kWeight, kNorm, kBias, kAdapter };

// A tensor under its checkpoint's (Hugging Face's) name.
struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

inline int64_t numel_of(const NamedTensor& tensor) {
  int64_t numel = 1;
  for (const int64_t size : tensor.shape) numel *= size;
  return numel;
}

// One operand: a checkpoint tensor, or several stacked along dimension 0. For example, the weights
// of query, key and value are stacked for one matrix product.
struct ParameterSpec {
  std::string name{};  // within its module
  std::vector<NamedTensor> tensors;
  Initialization initialization = Initialization::kNormal;
  double standard_deviation = 0.02;  // of kNormal
  ParameterRole role = ParameterRole::kWeight;
  bool is_trained = true;      // false: frozen, without gradient and optimizer state
  bool is_quantizable = true;  // by qlora, if it is a weight of a block
  bool is_quantized = false;   // frozen, and stored in 4 bits (NF4)
};

inline double numel_of(const ParameterSpec& parameter) {
  double count = 0;
  for (const NamedTensor& tensor : parameter.tensors) {
    double numel = 1;
    for (const int64_t size : tensor.shape) numel *= static_cast<double>(size);
    count += numel;
  }
  return count;
}

inline ParameterSpec weight_spec(std::string name, std::vector<NamedTensor> tensors,
                                 double standard_deviation) {
  return {.name = std::move(name),
          .tensors = std::move(tensors),
          .standard_deviation = standard_deviation};
}

// The weight [width] of a norm.
inline ParameterSpec norm_spec(std::string name, std::string tensor, int64_t width) {
  return {.name = std::move(name),
          .tensors = {{std::move(tensor), {width}}},
          .initialization = Initialization::kOnes,
          .role = ParameterRole::kNorm};
}

struct ModuleSpec {
  std::string name;
  std::vector<ParameterSpec> parameters{};  // in their order in a unit's flat buffer
  bool is_block = false;                    // whether activation checkpointing applies to it
  double adapter_scale = 1.0;               // factor on what adapters add
  double adapter_dropout = 0.0;             // dropout of what adapters read
};

// Consecutive modules that differ only in their names. A model may have 100,000 of them.
struct ModuleGroup {
  int64_t count = 1;
  std::function<ModuleSpec(int64_t index)> module;
};

}  // namespace fsdp
