// Writes a model with its adapters merged. Holds one tensor at a time.
#include "trainer/train/merged_model.h"

#include <ATen/ops/isfinite.h>

#include "base/text/config_error.h"
#include "contract/families/adapters.h"
#include "formats/weights/weights.h"
#include "trainer/checkpoint/full_weights_writer.h"
#include "trainer/checkpoint/saved_state.h"
#include "trainer/kernels/nf4.h"
#include "trainer/memory/counting_allocator.h"
#include "trainer/strategy/precision.h"
#include "trainer/train/weights.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Makes the values of merged weights.
class MergedWeights {
 public:
  MergedWeights(RunSpec spec, const path& checkpoint)
      : lora_(spec.lora),
        dtype_(merged_dtype(spec)),
        compute_dtype_(dtypes_of(spec.precision).compute),
        adapters_(read_weights(checkpoint, WeightsOf::kAdapter)) {
    spec.lora.adapter = checkpoint;
    source_ = make_weight_source(spec);
  }

  // Returns the value of a parameter of one tensor.
  at::Tensor value(const Parameter& weight) const {
    const at::Tensor value = unchecked_value(weight);
    if (at::isfinite(value).all().item<bool>()) return value;
    throw ConfigError(
        "", "", "tensor '" + weight.tensors().front().name + "' has a value" + infinite_in(dtype_));
  }

 private:
  at::Tensor unchecked_value(const Parameter& weight) const {
    const NamedTensor& tensor = weight.tensors().front();
    const std::string stem = kAdapterPrefix + tensor.name.substr(0, tensor.name.rfind('.'));
    const std::string a = stem + ".lora_A.weight";
    const bool is_adapted = weight.role() == ParameterRole::kWeight && adapters_.contains(a);
    if (!is_adapted) return read(weight, dtype_);
    const at::Tensor merged_OD = read(weight, at::kFloat);
    const at::Tensor a_RD = read_factor(a, {lora_.rank, tensor.shape[1]});
    const at::Tensor b_OR = read_factor(stem + ".lora_B.weight", {tensor.shape[0], lora_.rank});
    at::Tensor(merged_OD).addmm_(b_OR, a_RD, /*beta=*/1, adapter_scale(lora_));
    return merged_OD.to(dtype_);
  }

  at::Tensor read(const Parameter& parameter, at::ScalarType dtype) const {
    if (parameter.is_quantized()) return dequantized(parameter).to(dtype);
    const at::Tensor value = at::empty(parameter.shape(), dtype);
    source_(parameter, 0, value.flatten());
    return value;
  }

  // Returns the value in the dtype that products had in training.
  at::Tensor dequantized(const Parameter& parameter) const {
    const at::Tensor bytes = at::empty(parameter.stored_shape(), at::kByte);
    source_(parameter, 0, bytes);
    const at::Tensor value = at::empty(parameter.shape(), compute_dtype_);
    dequantize_nf4(bytes, value);
    return value;
  }

  at::Tensor read_factor(const std::string& name, std::vector<int64_t> shape) const {
    const Parameter factor(
        {.tensors = {{name, std::move(shape)}}, .role = ParameterRole::kAdapter});
    return read(factor, at::kFloat);
  }

  LoraSpec lora_;
  at::ScalarType dtype_;
  at::ScalarType compute_dtype_;
  StoredTensors adapters_;
  FillParameter source_;
};

path make_folder(const path& checkpoint) {
  path folder = checkpoint / kMergedFolder;
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error) fail_to_write(folder, error.value());
  return folder;
}

Checksums write_model(const RunSpec& spec, const TrainingStep& training, const path& checkpoint,
                      WriterThread& thread) {
  const path folder = make_folder(checkpoint);
  FullWeightsWriter writer(folder, frozen_parameters(training), merged_dtype(spec),
                           merged_model_files(spec, training.config()));
  const MergedWeights weights(spec, checkpoint);
  for_each_module(training.config(), spec.method, spec.lora, [&](const ModuleSpec& module) {
    for (const ParameterSpec& parameter : module.parameters) {
      if (parameter.is_trained) continue;
      for (const NamedTensor& tensor : parameter.tensors) {
        ParameterSpec alone = parameter;
        alone.tensors = {tensor};
        const Parameter weight(alone);
        writer.write(weight, weights.value(weight), thread);
      }
    }
  });
  Checksums checksums;
  for (auto& [name, checksum] : writer.finish()) checksums[path(kMergedFolder) / name] = checksum;
  sync_folder(folder);
  return checksums;
}

}  // namespace

Checksums write_merged_model(const RunSpec& spec, const TrainingStep& training,
                             const path& checkpoint, WriterThread& thread) {
  const UncountedMemory on_the_host;
  try {
    return write_model(spec, training, checkpoint, thread);
  } catch (const ConfigError& error) {
    throw std::runtime_error(
        std::string("the merged model cannot be written (checkpoint.merge): ") + error.what());
  }
}

}  // namespace fsdp
