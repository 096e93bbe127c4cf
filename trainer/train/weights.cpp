// Fills parameters from files or at random. A rank reads only the bytes that it keeps.
#include "trainer/train/weights.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <span>
#include <thread>

#include "base/system/start_up.h"
#include "base/text/config_error.h"
#include "formats/weights/bitsandbytes.h"
#include "formats/weights/weights.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/kernels/dynamic_map.h"
#include "trainer/kernels/nf4.h"
#include "trainer/memory/counting_allocator.h"

namespace fsdp {
namespace {

// Calls visit(tensor, its first element, its part of `out`) for each tensor of `parameter` with
// elements in [offset, offset + out.numel()).
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

// Returns the indices of element `index` of a tensor, such as "[3, 7]".
std::string place_text(const std::vector<int64_t>& shape, int64_t index) {
  std::vector<int64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    place[i] = index % shape[i];
    index /= shape[i];
  }
  return c10::str(at::IntArrayRef(place));
}

// Reads the weights in the folder that `key` names.
class CheckpointWeights {
 public:
  CheckpointWeights(std::string key, const std::filesystem::path& folder, WeightsOf of)
      : key_(std::move(key)), folder_(folder), tensors_(read_weights(folder, of)) {}

  void operator()(const Parameter& parameter, int64_t offset, const at::Tensor& out) const {
    for_each_tensor(parameter, offset, out,
                    [&](const NamedTensor& tensor, int64_t first, const at::Tensor& part) {
                      copy(tensor, find(tensor), first, part);
                    });
  }

  // Returns a weight's bytes (nf4_layout.h) if bitsandbytes stored the weight, else nullopt.
  std::optional<std::vector<uint8_t>> quantized(const NamedTensor& tensor) const {
    const std::optional<StoredNf4> stored = find_nf4(folder_, tensors_, tensor);
    if (!stored) return std::nullopt;
    const Nf4Layout layout{numel_of(tensor)};
    std::vector<uint8_t> bytes(static_cast<size_t>(layout.bytes()));
    const auto read = [&](const StoredTensor& part, int64_t place) {
      part.read(0, std::as_writable_bytes(std::span(bytes).subspan(place, part.size_bytes)));
    };
    read(stored->values, 0);
    read(stored->scales_of_scales, layout.scales_of_scales_at());
    read(stored->scales, layout.scales_at());
    std::memcpy(&bytes[layout.mean_at()], &stored->mean_of_scales, sizeof(float));
    check_finite(tensor, 0,
                 at::from_blob(&bytes[layout.scales_of_scales_at()], {layout.blocks_of_scales()}),
                 at::kFloat);
    DynamicMap map;
    stored->map_of_scales.read(0, std::as_writable_bytes(std::span(map.values)));
    if (!std::ranges::equal(map.values, dynamic_map(/*is_signed=*/true).values)) {
      refuse(tensor, "has scales of another map than bitsandbytes' create_dynamic_map()");
    }
    return bytes;
  }

 private:
  // The number of elements copied at a time: few enough that the check finds them in the cache.
  static constexpr int64_t kBlock = 1 << 18;

  [[noreturn]] void refuse(const NamedTensor& tensor, const std::string& problem) const {
    throw ConfigError(folder_.string(), key_, "tensor '" + tensor.name + "' " + problem);
  }

  const StoredTensor& find(const NamedTensor& tensor) const {
    const auto found = tensors_.find(tensor.name);
    if (found == tensors_.end()) refuse(tensor, "is missing");
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

  void copy(const NamedTensor& tensor, const StoredTensor& stored, int64_t first,
            const at::Tensor& part) const {
    const at::ScalarType dtype = stored.dtype == "F32"    ? at::kFloat
                                 : stored.dtype == "BF16" ? at::kBFloat16
                                                          : at::kHalf;
    const uint64_t item_bytes = c10::elementSize(dtype);
    // The buffer is no tensor, because a plan would have to count its memory.
    const auto staged =
        std::make_unique_for_overwrite<std::byte[]>(std::min(kBlock, part.numel()) * item_bytes);
    for (int64_t done = 0; done < part.numel(); done += kBlock) {
      const int64_t count = std::min(kBlock, part.numel() - done);
      stored.read((first + done) * item_bytes, {staged.get(), count * item_bytes});
      const at::Tensor block = at::from_blob(staged.get(), {count}, dtype);
      check_finite(tensor, first + done, block, part.scalar_type());
      part.narrow(0, done, count).copy_(block);
      continue_start_up_part();
    }
  }

  // `first` is the tensor's element at which `block` begins, and `dtype` the wanted one.
  void check_finite(const NamedTensor& tensor, int64_t first, const at::Tensor& block,
                    at::ScalarType dtype) const {
    const auto [minimum, maximum] = at::aminmax(block);  // both NaN if the block has one
    const auto is_finite = [&](const at::Tensor& value) {
      return std::isfinite(value.to(dtype).item<float>());
    };
    if (is_finite(minimum) && is_finite(maximum)) return;
    const int64_t index = at::isfinite(block.to(dtype)).logical_not().nonzero()[0].item<int64_t>();
    const auto value = block[index].item<float>();
    refuse(tensor, "is " + c10::str(value) + " at " + place_text(tensor.shape, first + index) +
                       (std::isfinite(value)
                            ? infinite_in(dtype)
                            : "; the file is damaged, or the training that wrote it had diverged: "
                              "take another one"));
  }

  std::string key_;
  std::filesystem::path folder_;
  StoredTensors tensors_;
};

class RandomWeights {
 public:
  explicit RandomWeights(int64_t seed) : seed_(seed) {}

  void operator()(const Parameter& parameter, int64_t offset, const at::Tensor& out) const {
    switch (parameter.initialization()) {
      case Initialization::kOnes:
        out.fill_(1);
        break;
      case Initialization::kZeros:
        out.zero_();
        break;
      case Initialization::kNormal:
        for_each_tensor(parameter, offset, out,
                        [&](const NamedTensor& tensor, int64_t first, const at::Tensor& part) {
                          fill_normal(tensor.name, parameter.standard_deviation(), first, part);
                        });
        break;
    }
  }

 private:
  // Each block of a tensor has its own random engine, so a slice only costs the blocks that it
  // touches.
  static constexpr int64_t kBlock = 65'536;

  // Uses its own threads: at::parallel_for is serial in code compiled without OpenMP.
  void fill_normal(const std::string& name, double standard_deviation, int64_t first,
                   const at::Tensor& part) const {
    const int64_t last = first + part.numel();
    const int64_t blocks_begin = first / kBlock;
    const int64_t blocks_end = (last + kBlock - 1) / kBlock;
    const int64_t threads = std::min<int64_t>(at::get_num_threads(), blocks_end - blocks_begin);
    const auto fill_every = [&](int64_t thread) {
      std::vector<float> values(kBlock);
      for (int64_t block = blocks_begin + thread; block < blocks_end; block += threads) {
        make_block(name, standard_deviation, block, values);
        const int64_t block_first = std::max(first, block * kBlock);
        const int64_t block_last = std::min(last, (block + 1) * kBlock);
        AT_DISPATCH_FLOATING_TYPES_AND2(
            at::kBFloat16, at::kHalf, part.scalar_type(), "fill_normal", [&] {
              std::transform(values.data() + block_first - block * kBlock,
                             values.data() + block_last - block * kBlock,
                             part.data_ptr<scalar_t>() + block_first - first,
                             [](float value) { return static_cast<scalar_t>(value); });
            });
      }
    };
    std::vector<std::jthread> workers;
    for (int64_t thread = 1; thread < threads; ++thread) workers.emplace_back(fill_every, thread);
    fill_every(0);
  }

  // Makes normal values: Box and Muller's transform of uniform numbers from a Mersenne Twister. Its
  // seed is made of the run's seed, the block and the name.
  void make_block(const std::string& name, double standard_deviation, int64_t block,
                  std::vector<float>& values) const {
    std::vector<uint32_t> seeds;
    for (const int64_t number : {seed_, block}) {
      seeds.push_back(static_cast<uint32_t>(number));
      seeds.push_back(static_cast<uint32_t>(number >> 32));
    }
    seeds.insert(seeds.end(), name.begin(), name.end());
    std::seed_seq sequence(seeds.begin(), seeds.end());
    std::mt19937_64 engine(sequence);

    constexpr float kUniform = 1.0f / (1 << 24);  // turns 24 bits of a draw into a number below 1
    constexpr float kTurn = 2 * std::numbers::pi_v<float>;
    const auto scale = static_cast<float>(standard_deviation);
    for (int64_t i = 0; i < kBlock; i += 2) {
      const uint64_t draw = engine();
      const float positive = static_cast<float>((draw >> 40) + 1) * kUniform;
      const float angle = static_cast<float>(draw & 0xffffff) * kUniform * kTurn;
      const float radius = scale * std::sqrt(-2 * std::log(positive));
      values[i] = radius * std::cos(angle);
      values[i + 1] = radius * std::sin(angle);
    }
  }

  int64_t seed_;
};

// Quantizes the parameters that the run keeps quantized, one tensor at a time, unless they are
// stored quantized. Other parameters pass unchanged.
class QuantizedWeights {
 public:
  // `stored` is the folder that `values` reads; null: `values` reads none.
  QuantizedWeights(FillParameter values, std::shared_ptr<const CheckpointWeights> stored)
      : values_(std::move(values)), stored_(std::move(stored)) {}

  void operator()(const Parameter& parameter, int64_t offset, const at::Tensor& out) const {
    if (!parameter.is_quantized()) return values_(parameter, offset, out);
    const std::span to(out.data_ptr<uint8_t>(), static_cast<size_t>(out.numel()));
    const int64_t end = offset + out.numel();
    int64_t begin = 0;  // of the tensor's bytes
    int64_t first_element = 0;
    for (const NamedTensor& tensor : parameter.tensors()) {
      const int64_t tensor_end = begin + Nf4Layout{numel_of(tensor)}.bytes();
      const int64_t first = std::max(offset, begin);
      const int64_t last = std::min(end, tensor_end);
      if (first < last) {
        const UncountedMemory one_tensor;
        const std::vector<uint8_t> bytes = bytes_of(parameter, tensor, first_element);
        std::memcpy(&to[first - offset], &bytes[first - begin], last - first);
      }
      begin = tensor_end;
      first_element += numel_of(tensor);
    }
  }

 private:
  static constexpr int64_t kPiece = 1 << 18;

  std::vector<uint8_t> bytes_of(const Parameter& parameter, const NamedTensor& tensor,
                                int64_t first_element) const {
    if (stored_) {
      if (auto stored = stored_->quantized(tensor)) return *std::move(stored);
    }
    const int64_t numel = numel_of(tensor);
    Nf4Quantizer quantizer(numel);
    std::vector<float> piece(static_cast<size_t>(std::min(kPiece, numel)));
    for (int64_t done = 0; done < numel; done += kPiece) {
      const int64_t count = std::min(kPiece, numel - done);
      values_(parameter, first_element + done, at::from_blob(piece.data(), {count}));
      quantizer.add(std::span(piece).first(static_cast<size_t>(count)));
    }
    return quantizer.finish();
  }

  FillParameter values_;
  std::shared_ptr<const CheckpointWeights> stored_;
};

}  // namespace

FillParameter weights_of(const RunSpec& spec, const CheckpointReader* checkpoint) {
  FillParameter fill;
  if (checkpoint == nullptr || spec.method != Method::kFull) fill = make_weight_source(spec);
  if (checkpoint == nullptr) return fill;
  return [checkpoint, frozen = std::move(fill)](const Parameter& parameter, int64_t offset,
                                                const at::Tensor& out) {
    if (!parameter.is_trained()) return frozen(parameter, offset, out);
    checkpoint->read(kWeights, parameter, offset, out);
  };
}

std::string infinite_in(at::ScalarType dtype) {
  return dtype == at::kHalf
             ? ", which is infinite in fp16; set checkpoint.merge_dtype: bf16 or fp32"
             : ", which is infinite in bf16; set precision or "
               "checkpoint.merge_dtype to fp32";
}

FillParameter make_weight_source(const RunSpec& spec) {
  const auto stored = [](const std::string& key, const std::filesystem::path& folder,
                         WeightsOf of) {
    return folder.empty() ? nullptr : std::make_shared<const CheckpointWeights>(key, folder, of);
  };
  const auto values = [&](const std::shared_ptr<const CheckpointWeights>& weights) {
    if (!weights) return FillParameter(RandomWeights(spec.train.seed));
    return FillParameter(std::bind_front(&CheckpointWeights::operator(), weights));
  };
  const auto of_model = stored("model.source", spec.model.source, WeightsOf::kModel);
  const FillParameter model = QuantizedWeights(values(of_model), of_model);
  if (spec.method == Method::kFull) return model;
  return [model, adapters = values(stored("lora.adapter", spec.lora.adapter, WeightsOf::kAdapter))](
             const Parameter& parameter, int64_t offset, const at::Tensor& out) {
    const bool is_adapter = parameter.role() == ParameterRole::kAdapter;
    (is_adapter ? adapters : model)(parameter, offset, out);
  };
}

}  // namespace fsdp
