#include <nlohmann/json.hpp>

#include "contract/families/family.h"
#include "formats/weights/weights.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;
using Json = nlohmann::json;

const ModelConfig kTiny = {.num_hidden_layers = 1,
                           .hidden_size = 8,
                           .intermediate_size = 12,
                           .num_attention_heads = 2,
                           .num_key_value_heads = 1,
                           .vocab_size = 16};
const std::string kQuery = "model.layers.0.self_attn.q_proj.weight";

struct Part {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};
using Parts = std::map<std::string, Part>;

std::string safetensors_of(const Parts& parts) {
  Json header = Json::object();
  std::string data;
  for (const auto& [name, part] : parts) {
    header[name] = {{"dtype", part.dtype},
                    {"shape", part.shape},
                    {"data_offsets", {data.size(), data.size() + part.bytes.size()}}};
    data += part.bytes;
  }
  return safetensors_bytes(header.dump(), data);
}

// The model's weights in F32.
Parts weights() {
  Parts parts;
  for_each_module(kTiny, [&](const ModuleSpec& module) {
    for (const ParameterSpec& parameter : module.parameters) {
      for (const NamedTensor& tensor : parameter.tensors) {
        const auto bytes = static_cast<size_t>(numel_of(tensor)) * sizeof(float);
        parts[tensor.name] = {"F32", tensor.shape, std::string(bytes, '\0')};
      }
    }
  });
  return parts;
}

// Stores the weight [8, 8] as bitsandbytes does, with these settings in place of the usual ones.
void quantize(Parts& parts, const std::string& name, const Json& other = Json::object(),
              const std::string& kind = "nf4") {
  Json settings = {{"quant_type", "nf4"},    {"blocksize", 64},     {"nested_blocksize", 256},
                   {"nested_offset", 0.125}, {"dtype", "bfloat16"}, {"shape", {8, 8}}};
  settings.update(other);
  const std::string text = settings.dump();
  parts[name] = {"U8", {32, 1}, std::string(32, '\0')};
  parts[name + ".absmax"] = {"U8", {1}, std::string(1, '\0')};
  parts[name + ".quant_map"] = {"F32", {16}, std::string(64, '\0')};
  parts[name + ".nested_absmax"] = {"F32", {1}, std::string(4, '\0')};
  parts[name + ".nested_quant_map"] = {"F32", {256}, std::string(1024, '\0')};
  parts[name + ".quant_state.bitsandbytes__" + kind] = {
      "U8", {static_cast<int64_t>(text.size())}, text};
}

std::string refusal_of(const Parts& parts, Method method = Method::kQlora) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors_of(parts));
  return refusal([&] { check_weights(folder.path(), kTiny, method); });
}

TEST_CASE("weights that bitsandbytes stored in NF4 are for method qlora") {
  Parts parts = weights();
  quantize(parts, kQuery);
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors_of(parts));
  CHECK_NOTHROW(check_weights(folder.path(), kTiny, Method::kQlora));
  for (const Method method : {Method::kFull, Method::kLora}) {
    CHECK_THAT(refusal_of(parts, method),
               Contains(kQuery) && Contains("is quantized to NF4; method: qlora trains"));
  }
  parts[kQuery + "_other.absmax"] = {"U8", {1}, "0"};
  CHECK_THAT(refusal_of(parts), Contains("q_proj.weight_other.absmax' is not part of"));
}

TEST_CASE("weights that were quantized otherwise are refused") {
  const auto message = [](const Json& settings) {
    Parts parts = weights();
    quantize(parts, kQuery, settings);
    return refusal_of(parts);
  };
  CHECK_THAT(message({{"blocksize", 128}}),
             Contains("was quantized with blocksize 128 instead of 64; allowed: NF4 in blocks"));
  CHECK_THAT(message({{"shape", {8, 9}}}), Contains("with shape [8,9] instead of [8,8]"));
  CHECK_THAT(message({{"nested_offset", nullptr}}), Contains("has nested_offset null"));
  CHECK_THAT(message({{"nested_offset", 1e300}}), Contains("which is no number"));

  Parts parts = weights();
  quantize(parts, kQuery, Json::object(), "fp4");
  CHECK_THAT(refusal_of(parts), Contains("was quantized to FP4; allowed: NF4"));
  parts = weights();
  quantize(parts, kQuery);
  parts.erase(kQuery + ".nested_absmax");
  CHECK_THAT(refusal_of(parts), Contains("was quantized without " + kQuery + ".nested_absmax"));
  quantize(parts, kQuery);
  parts[kQuery].bytes.pop_back();
  parts[kQuery].shape = {31};
  CHECK_THAT(refusal_of(parts), Contains("of 31 bytes of U8 instead of 32 of U8"));
  quantize(parts, kQuery);
  parts[kQuery + ".quant_state.bitsandbytes__nf4"] = {"U8", {1}, "{"};
  CHECK_THAT(refusal_of(parts), Contains("has settings that are no JSON"));
}

TEST_CASE("config.json of weights that were quantized otherwise is refused") {
  const Json nf4 = {{"quant_method", "bitsandbytes"},
                    {"load_in_4bit", true},
                    {"bnb_4bit_quant_type", "nf4"},
                    {"bnb_4bit_use_double_quant", true}};
  const auto read = [](const Json& quantization) {
    Json config = Json::parse(family_of(kTiny).write_config(kTiny).dump());
    config["quantization_config"] = quantization;
    return read_model_config(HuggingFaceConfig("config.json", config));
  };
  CHECK(read(nf4) == read(nullptr));
  for (const auto& [key, value] : nf4.items()) {
    Json other = nf4;
    other[key] = "other";
    CHECK_THAT(refusal([&] { read(other); }),
               Contains("has a quantization_config without " + key + ' ' + value.dump()));
  }
  CHECK_THAT(refusal([&] { read("gptq"); }), Contains("has a quantization_config without"));
}

}  // namespace
}  // namespace fsdp
