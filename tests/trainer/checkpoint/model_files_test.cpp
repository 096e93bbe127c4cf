#include <nlohmann/json.hpp>

#include "base/files/input_file.h"
#include "formats/inputs/inputs.h"
#include "tests/contract/input_fixtures.h"
#include "trainer/checkpoint/full_weights_writer.h"

namespace fsdp::model_files_test {

nlohmann::json config_in(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  return parse_json_object(file, read_input_file(file));
}

void write_model_files(const TemporaryFolder& folder, const ModelSpec& model,
                       at::ScalarType dtype) {
  RunSpec spec;
  spec.model = model;
  const ModelFiles files = model_files(spec, model.config, dtype);
  folder.write(files.config_name, files.config);
  for (const std::filesystem::path& file : files.copied) {
    folder.write(file.filename(), read_input_file(file));
  }
}

TEST_CASE("a random model's config.json is read back as its architecture") {
  const TemporaryFolder folder;
  ModelSpec model;
  model.config.num_key_value_heads = 3;
  model.config.head_dim = 20;
  model.config.rope_theta = 50000.5;
  model.config.rms_norm_eps = 1e-6;
  model.config.tie_word_embeddings = true;
  model.config.initializer_range = 0.25;
  write_model_files(folder, model, at::kBFloat16);
  CHECK(read_hugging_face_config(folder.path()) == model.config);
  CHECK(config_in(folder.path())["dtype"] == "bfloat16");
}

TEST_CASE("a source's config is kept but for the dtype, and its tokenizer comes along") {
  const TemporaryFolder source;
  source.write("config.json", R"({"model_type":"llama","own":[1e-05],"torch_dtype":"bfloat16"})");
  source.write("tokenizer.json", "{\"a\": 1}");
  source.write("generation_config.json", "{}\n");
  source.write("model.safetensors", "not to be copied");
  const TemporaryFolder folder;
  ModelSpec model;
  model.source = source.path();
  write_model_files(folder, model, at::kFloat);
  CHECK(config_in(folder.path()) ==
        nlohmann::json::parse(R"({"model_type":"llama","own":[1e-05],"torch_dtype":"float32"})"));
  CHECK(read_input_file(folder.path() / "tokenizer.json") == "{\"a\": 1}");
  CHECK(read_input_file(folder.path() / "generation_config.json") == "{}\n");
  CHECK(!std::filesystem::exists(folder.path() / "model.safetensors"));
}

TEST_CASE("a merged model's config.json says its dtype, and no quantization") {
  const TemporaryFolder source;
  source.write("config.json",
               R"({"dtype":"bfloat16","quantization_config":{"load_in_4bit":true}})");
  RunSpec spec;
  spec.model.source = source.path();
  spec.method = Method::kQlora;
  spec.precision.kind = PrecisionKind::kBf16True;
  const auto config_of_merged = [&] {
    return nlohmann::json::parse(merged_model_files(spec, spec.model.config).config);
  };
  CHECK(config_of_merged() == nlohmann::json::parse(R"({"dtype":"bfloat16"})"));
  spec.checkpoint.merge_dtype = Dtype::kFp16;
  CHECK(config_of_merged() == nlohmann::json::parse(R"({"dtype":"float16"})"));
}

}  // namespace fsdp::model_files_test
