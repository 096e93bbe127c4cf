#include "trainer/train/weights.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <numbers>
#include <random>

#include "trainer/contract/config_error.h"
#include "trainer/contract/safetensors.h"

namespace fsdp {
namespace {

int64_t numel_of(const NamedTensor& tensor) {
  int64_t numel = 1;
  for (const int64_t size : tensor.shape) numel *= size;
  return numel;
}

// Calls visit(tensor, first element of it, its part of `out`) for the tensors of `parameter` that
// have elements in [offset, offset + out.numel()).
template <typename Visit>
void for_each_tensor(const Parameter& parameter, int64_t offset, const at::Tensor& out,
                     Visit visit) {
  TORCH_CHECK(offset >= 0 && offset + out.numel() <= parameter.numel(), "slice beyond ",
              parameter.tensors().front().name);
  const int64_t end = offset + out.numel();
  int64_t tensor_begin = 0;
  for (const NamedTensor& tensor : parameter.tensors()) {
    const int64_t tensor_end = tensor_begin + numel_of(tensor);
    const int64_t first = std::max(offset, tensor_begin);
    const int64_t last = std::min(end, tensor_end);
    if (first < last) {
      visit(tensor, first - tensor_begin, out.narrow(0, first - offset, last - first));
    }
    tensor_begin = tensor_end;
  }
}

class CheckpointWeights {
 public:
  explicit CheckpointWeights(const std::filesystem::path& folder)
      : folder_(folder), entries_(read_safetensors(folder)) {}

  void operator()(const Parameter& parameter, int64_t offset, const at::Tensor& out) const {
    for_each_tensor(parameter, offset, out,
                    [&](const NamedTensor& tensor, int64_t first, const at::Tensor& part) {
                      copy(find(tensor), first, part);
                    });
  }

 private:
  [[noreturn]] void refuse(const NamedTensor& tensor, const std::string& problem) const {
    throw ConfigError(folder_.string(), "model.source", "tensor '" + tensor.name + "' " + problem);
  }

  const SafetensorsEntry& find(const NamedTensor& tensor) const {
    const auto found = entries_.find(tensor.name);
    if (found == entries_.end()) refuse(tensor, "is missing");
    if (found->second.shape != tensor.shape) {
      refuse(tensor, "has shape " + c10::str(at::IntArrayRef(found->second.shape)) +
                         "; the model's is " + c10::str(at::IntArrayRef(tensor.shape)));
    }
    const std::string& dtype = found->second.dtype;
    if (dtype != "F32" && dtype != "BF16" && dtype != "F16") {
      refuse(tensor, "has dtype " + dtype + "; allowed: F32, BF16, F16");
    }
    return found->second;
  }

  static void copy(const SafetensorsEntry& entry, int64_t first, const at::Tensor& part) {
    const at::ScalarType dtype = entry.dtype == "F32"    ? at::kFloat
                                 : entry.dtype == "BF16" ? at::kBFloat16
                                                         : at::kHalf;
    const int64_t item_bytes = static_cast<int64_t>(c10::elementSize(dtype));
    const auto bytes = entry.bytes.subspan(first * item_bytes, part.numel() * item_bytes);
    const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data()) % item_bytes == 0;
    if (is_aligned) {
      part.copy_(at::from_blob(const_cast<std::byte*>(bytes.data()), {part.numel()}, dtype));
    } else {  // the format does not promise alignment
      const at::Tensor aligned = at::empty({part.numel()}, dtype);
      std::memcpy(aligned.data_ptr(), bytes.data(), bytes.size());
      part.copy_(aligned);
    }
  }

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsEntry> entries_;
};

class RandomWeights {
 public:
  explicit RandomWeights(int64_t seed) : seed_(seed) {}

  void operator()(const Parameter& parameter, int64_t offset, const at::Tensor& out) const {
    switch (parameter.initialization()) {
      case Initialization::kOnes:
        out.fill_(1);
        break;
      case Initialization::kNormal:
        for_each_tensor(parameter, offset, out,
                        [&](const NamedTensor& tensor, int64_t first, const at::Tensor& part) {
                          fill_normal(tensor.name, first, part);
                        });
        break;
    }
  }

 private:
  // A tensor is generated in blocks, each from an engine of its own, so that a slice costs no more
  // than the blocks it touches.
  static constexpr int64_t kBlock = 65'536;

  void fill_normal(const std::string& name, int64_t first, const at::Tensor& part) const {
    const int64_t last = first + part.numel();
    const int64_t blocks_begin = first / kBlock;
    const int64_t blocks_end = (last + kBlock - 1) / kBlock;
    at::parallel_for(blocks_begin, blocks_end, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t block_first = std::max(first, block * kBlock);
        const int64_t block_last = std::min(last, (block + 1) * kBlock);
        const int64_t count = block_last - block_first;
        part.narrow(0, block_first - first, count)
            .copy_(normal_block(name, block).narrow(0, block_first - block * kBlock, count));
      }
    });
  }

  // kBlock normal values of standard deviation 0.02, fp32: Box and Muller's transform of uniform
  // numbers from a Mersenne Twister that is seeded with the seed, the block and the name.
  at::Tensor normal_block(const std::string& name, int64_t block) const {
    std::vector<uint32_t> seeds;
    for (const int64_t number : {seed_, block}) {
      seeds.push_back(static_cast<uint32_t>(number));
      seeds.push_back(static_cast<uint32_t>(number >> 32));
    }
    seeds.insert(seeds.end(), name.begin(), name.end());
    std::seed_seq sequence(seeds.begin(), seeds.end());
    std::mt19937_64 engine(sequence);

    constexpr float kUniform = 1.0f / (1 << 24);  // 24 bits of a draw make a number below 1
    const at::Tensor uniform = at::empty({2, kBlock / 2}, at::kFloat);
    float* const for_radius = uniform.data_ptr<float>();
    float* const for_angle = for_radius + kBlock / 2;
    for (int64_t i = 0; i < kBlock / 2; ++i) {
      const uint64_t draw = engine();
      for_radius[i] = static_cast<float>((draw >> 40) + 1) * kUniform;  // not 0: its logarithm
      for_angle[i] = static_cast<float>(draw & 0xffffff) * kUniform;
    }
    const at::Tensor radius = uniform[0].log_().mul_(-2).sqrt_().mul_(0.02);
    const at::Tensor angle = uniform[1].mul_(2 * std::numbers::pi);
    return at::cat({angle.cos().mul_(radius), angle.sin().mul_(radius)});
  }

  int64_t seed_;
};

}  // namespace

FillParameter make_weight_source(const RunSpec& spec) {
  if (spec.model.source.empty()) return RandomWeights(spec.train.seed);
  return CheckpointWeights(spec.model.source);
}

}  // namespace fsdp
