// Lists the files beside weights that transformers or PEFT need to open a checkpoint.
#include <nlohmann/json.hpp>

#include "base/files/input_file.h"
#include "base/text/foreign_json.h"
#include "contract/families/adapters.h"
#include "contract/families/family.h"
#include "formats/inputs/inputs.h"
#include "trainer/checkpoint/full_weights_writer.h"
#include "trainer/strategy/precision.h"

namespace fsdp {
namespace {

using nlohmann::ordered_json;
using std::filesystem::path;

std::string dtype_in_config(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return "float64";
    case at::kFloat:
      return "float32";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      TORCH_CHECK(false, "weights of dtype ", dtype, " have no place in config.json");
  }
}

ordered_json read_config(const path& file) {
  const std::string text = read_input_file(file);
  parse_json_object(file, text);
  return parse_foreign_json<ordered_json>(text);
}

std::string config_text(const ModelSpec& model, at::ScalarType dtype) {
  ordered_json config = model.source.empty() ? family_of(model.config).write_config(model.config)
                                             : read_config(model.source / "config.json");
  const bool has_old_key = config.contains("torch_dtype") && !config.contains("dtype");
  config.erase("quantization_config");  // the written weights are not quantized
  config[has_old_key ? "torch_dtype" : "dtype"] = dtype_in_config(dtype);
  return config.dump(2) + '\n';
}

// Returns the files of the run's tokenizer, under names at which transformers finds them.
std::vector<PlacedFile> tokenizer_files_of(const RunSpec& spec, const ModelConfig& config) {
  return transformers_files(tokenizer_of(spec),
                            family_of(config).structure == ModelStructure::kEncoderDecoder);
}

// The text of PEFT's adapter_config.json.
std::string adapter_config_text(const RunSpec& spec, const ModelConfig& config) {
  const bool is_decoder = family_of(config).structure == ModelStructure::kDecoder;
  const LoraSpec& lora = spec.lora;
  const ordered_json object = {
      {"peft_type", "LORA"},
      {"task_type", is_decoder ? "CAUSAL_LM" : "SEQ_2_SEQ_LM"},
      {"base_model_name_or_path",
       spec.model.source.empty() ? ordered_json() : ordered_json(spec.model.source.string())},
      {"r", lora.rank},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", lora.dropout},
      {"target_modules", adapted_names(config, lora)},
      {"use_rslora", lora.use_rslora},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"init_lora_weights", true},
      {"inference_mode", true}};
  return object.dump(2) + '\n';
}

}  // namespace

at::ScalarType merged_dtype(const RunSpec& spec) {
  const std::optional<Dtype> dtype = spec.checkpoint.merge_dtype;
  return dtype ? scalar_type_of(*dtype) : dtypes_of(spec.precision).parameters;
}

ModelFiles merged_model_files(const RunSpec& spec, const ModelConfig& config) {
  RunSpec merged = spec;
  merged.method = Method::kFull;
  return model_files(merged, config, merged_dtype(spec));
}

ModelFiles model_files(const RunSpec& spec, const ModelConfig& config, at::ScalarType dtype) {
  std::vector<PlacedFile> copied = tokenizer_files_of(spec, config);
  if (spec.method != Method::kFull) {
    return {.weights = "adapter_model",
            .max_file_bytes = std::numeric_limits<int64_t>::max(),
            .config_name = "adapter_config.json",
            .config = adapter_config_text(spec, config),
            .copied = std::move(copied)};
  }
  const char* const name = "generation_config.json";
  if (const path& source = spec.model.source; !source.empty() && input_exists(source / name)) {
    copied.push_back({name, source / name});
  }
  return {.max_file_bytes =
              spec.checkpoint.single_file ? std::numeric_limits<int64_t>::max() : kMaxFileBytes,
          .config = config_text(spec.model, dtype),
          .copied = std::move(copied)};
}

}  // namespace fsdp
