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
  spec.data.kind = DataKind::kText;
  FullWeightsWriter(folder.path(), {}, dtype, model_files(spec, model.config, dtype)).finish();
}

std::vector<std::string> names_of(const ModelFiles& files) {
  std::vector<std::string> names;
  for (const PlacedFile& file : files.copied) names.push_back(file.name);
  return names;
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
  std::filesystem::create_directory(source / "additional_chat_templates");
  source.write("additional_chat_templates/rag.jinja", "{{ messages }}");
  source.write("model.safetensors", "not to be copied");
  const TemporaryFolder folder;
  ModelSpec model;
  model.source = source.path();
  write_model_files(folder, model, at::kFloat);
  CHECK(config_in(folder.path()) ==
        nlohmann::json::parse(R"({"model_type":"llama","own":[1e-05],"torch_dtype":"float32"})"));
  CHECK(read_input_file(folder.path() / "tokenizer.json") == "{\"a\": 1}");
  CHECK(read_input_file(folder.path() / "generation_config.json") == "{}\n");
  CHECK(read_input_file(folder / "additional_chat_templates/rag.jinja") == "{{ messages }}");
  CHECK(read_input_file(folder / "model.safetensors") != "not to be copied");
}

TEST_CASE("a checkpoint has the run's tokenizer, wherever it comes from and whatever is trained") {
  const TemporaryFolder source;
  for (const char* name : {"config.json", "generation_config.json"}) source.write(name, "{}");
  for (const char* name : {"tokenizer.json", "vocab.json"}) source.write(name, "of the model");
  const TemporaryFolder other;
  for (const char* name :
       {"spiece.model", "tokenizer.model.v3", "tokenizer.4.1.0.json", "a.md", "another.model"}) {
    other.write(name, "of data.tokenizer");
  }
  // Neither pieces of a checkpoint nor what cannot be read.
  other.write("tokenizer.model.rank9.safetensors", "a piece");
  other.write("tokenizer.model.v7", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  std::filesystem::create_directory(other / "additional_chat_templates");
  other.write("additional_chat_templates/\xff.jinja", "");
  RunSpec spec;
  spec.model.source = source.path();
  spec.data.kind = DataKind::kTokens;
  const auto names = [&] { return names_of(model_files(spec, spec.model.config, at::kFloat)); };
  const std::string config = "tokenizer_config.json";  // not in these folders
  const std::string generation = "generation_config.json";
  CHECK(names() == TextList{"tokenizer.json", "vocab.json", config, generation});
  spec.data.tokenizer = other.path();
  CHECK(names() ==
        TextList{"spiece.model", "tokenizer.4.1.0.json", "tokenizer.model.v3", config, generation});
  spec.data.tokenizer = other / "another.model";
  spec.data.kind = DataKind::kText;
  CHECK(names() == TextList{"tokenizer.model", config, generation});
  spec.model.config.architecture = "T5ForConditionalGeneration";
  CHECK(names() == TextList{"spiece.model", config, generation});
  spec.method = Method::kLora;
  CHECK(names() == TextList{"spiece.model", config});
  CHECK(names_of(merged_model_files(spec, spec.model.config)) ==
        TextList{"spiece.model", config, generation});
  spec = RunSpec();  // chess has a tokenizer of its own
  CHECK(names() == TextList{"tokenizer.model", config});
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
