#include "formats/inputs/inputs.h"

#include <array>

#include "contract/record/run_paths.h"
#include "formats/tokenizers/tokenizer.h"
#include "tests/contract/applied_overrides.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;
using Tensors = std::map<std::string, std::vector<int64_t>>;  // shapes by name

const std::string kConfig = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "dtype": "float32", "head_dim": 4, "hidden_act": "silu", "hidden_size": 8,
  "initializer_range": 0.1, "intermediate_size": 12, "max_position_embeddings": 64, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 2, "num_hidden_layers": 1,
  "num_key_value_heads": 1, "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-06,
  "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"},
  "tie_word_embeddings": false, "transformers_version": "5.23.0", "vocab_size": 16})";

Tensors tensors_of_config() {
  const std::string block = "model.layers.0.";
  return {{"model.embed_tokens.weight", {16, 8}},
          {block + "input_layernorm.weight", {8}},
          {block + "self_attn.q_proj.weight", {8, 8}},
          {block + "self_attn.k_proj.weight", {4, 8}},
          {block + "self_attn.v_proj.weight", {4, 8}},
          {block + "self_attn.o_proj.weight", {8, 8}},
          {block + "post_attention_layernorm.weight", {8}},
          {block + "mlp.gate_proj.weight", {12, 8}},
          {block + "mlp.up_proj.weight", {12, 8}},
          {block + "mlp.down_proj.weight", {8, 12}},
          {"model.norm.weight", {8}},
          {"lm_head.weight", {16, 8}}};
}

// kConfig with `before` replaced.
std::string config_with(const std::string& before, const std::string& after) {
  std::string text = kConfig;
  const size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  return text.replace(at, before.size(), after);
}

std::string config_refusal(const std::string& before, const std::string& after) {
  const TemporaryFolder folder;
  const auto file = folder.write("config.json", config_with(before, after));
  const std::string message = refusal([&] { read_hugging_face_config(folder.path()); });
  CHECK_THAT(message, Contains(file.string()));
  return message;
}

// A run on 2 rows of 4 tokens with a model from a folder; each file can be spoilt.
struct TokenRun {
  TokenRun() {
    folder.write("config.json", kConfig);
    folder.write("model.safetensors", counting_safetensors(tensors_of_config()));
    spec.model.source = folder.path();
    spec.data.kind = DataKind::kTokens;
    spec.data.train = folder.write("tokens.npy", npy_of(2, 5, {0, 1, 2, 3, 4, 5, 6, 7, 8, 15}));
    spec.data.sequence_length = 4;
    spec.batch.size_per_rank = 2;
    spec = resolved(spec);
  }
  std::string message() const {
    return refusal([&] { check_inputs(spec); });
  }
  void write_tensors(const Tensors& tensors) const {
    folder.write("model.safetensors", counting_safetensors(tensors));
  }
  TemporaryFolder folder;
  RunSpec spec;
};

TEST_CASE("a config.json of transformers 5 is read") {
  const TemporaryFolder folder;
  folder.write("config.json", kConfig);
  CHECK(read_hugging_face_config(folder.path()) == ModelConfig{.num_hidden_layers = 1,
                                                               .hidden_size = 8,
                                                               .intermediate_size = 12,
                                                               .num_attention_heads = 2,
                                                               .num_key_value_heads = 1,
                                                               .head_dim = 4,
                                                               .vocab_size = 16,
                                                               .rope_theta = 5000,
                                                               .rms_norm_eps = 1e-6,
                                                               .tie_word_embeddings = false,
                                                               .max_position_embeddings = 64,
                                                               .initializer_range = 0.1});
}

TEST_CASE("a config.json of transformers 4 is read, with its defaults") {
  const TemporaryFolder folder;
  folder.write("config.json",
               R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 8,
                   "intermediate_size": 12, "num_attention_heads": 2, "num_hidden_layers": 1,
                   "rope_scaling": null, "rope_theta": 20000, "tie_word_embeddings": true,
                   "vocab_size": 16})");
  const ModelConfig config = read_hugging_face_config(folder.path());
  CHECK(config.num_key_value_heads == 2);
  CHECK(config.head_width() == 4);
  CHECK(config.initializer_range == 0.02);
  CHECK(config.rope_theta == 20000);
  CHECK(config.rms_norm_eps == 1e-6);
  CHECK(config.tie_word_embeddings);
  CHECK(config.max_position_embeddings == 2048);
}

TEST_CASE("a preset, an adapter and quantized weights are told from a model's folder") {
  const TemporaryFolder folder;
  CHECK_THAT(refusal([&] { read_hugging_face_config(folder / "llama3-8b"); }),
             Contains("llama3-8b is a preset, so write model.config: llama3-8b"));
  CHECK_THAT(refusal([&] { read_hugging_face_config(folder / "none"); }),
             Contains("cannot be read: No such file or directory"));
  folder.write("adapter_config.json", "{}");
  CHECK_THAT(refusal([&] { read_hugging_face_config(folder.path()); }),
             Contains("is an adapter (adapter_config.json)") && Contains("checkpoint.merge: true"));
  CHECK_THAT(config_refusal("\"dtype\": \"float32\"",
                            "\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}"),
             Contains("quantized in a way that cannot be read; allowed: NF4"));
}

TEST_CASE("a config.json of another architecture, or a damaged one, is refused") {
  using Replacement = std::array<const char*, 3>;  // what is replaced, by what, and the message
  for (const auto& [before, after, words] : std::vector<Replacement>{
           {"LlamaForCausalLM", "PhiForCausalLM", "PhiForCausalLM"},
           {"LlamaForCausalLM", "PhiForCausalLM",
            "allowed: [\"LlamaForCausalLM\"], [\"MistralForCausalLM\"], "},
           {"dropout\": 0.0", "dropout\": 0.1", "'attention_dropout'"},
           {"silu", "gelu", "'hidden_act'"},
           {"\"default\"", "\"yarn\"",
            "'rope_parameters.rope_type': \"yarn\" is not supported; allowed: "
            "[\"default\",\"linear\",\"llama3\"]"},
           {"\"pad_token_id\": null", R"("rope_scaling": {"type": "dynamic"})",
            "'rope_scaling.rope_type': \"dynamic\""},
           {"\"pad_token_id\": null", R"("rope_scaling": {"type": "linear"})",
            "'rope_scaling.factor': is missing"},
           {"\"vocab_size\": 16}", "", "is not JSON"},
           {"vocab_size\": 16", "vocab\": 16", "'vocab_size': is missing"},
           {"vocab_size\": 16", "vocab_size\": 1.5", "1.5 is not a whole number at least 2"},
           {"hidden_size\": 8", "hidden_size\": 1000000000000000000", "at most 1000000"},
           {"hidden_size\": 8", "hidden_size\": 9", "2 does not divide hidden_size 9"},
           {"head_dim\": 4", "head_dim\": 5", "'head_dim': 5 is odd; allowed: even numbers"},
           {"layers\": 1", "layers\": 1000000000", "'num_hidden_layers': 1000000000"},
           {"layers\": 1", "layers\": 1000000000", "at most 100000"},
           {"value_heads\": 1", "value_heads\": 3", "'num_key_value_heads': 3"},
           {"1e-06", "\"small\"", "'rms_norm_eps'"}}) {
    CHECK_THAT(config_refusal(before, after), Contains(words));
  }
}

TEST_CASE("inputs that fit are accepted and listed") {
  const TokenRun run;
  CHECK_NOTHROW(check_inputs(run.spec));
  const auto& folder = run.folder.path();
  CHECK(input_files(run.spec) ==
        std::vector<NamedInput>{{"model.source", folder / "config.json"},
                                {"model.source", folder / "model.safetensors"},
                                {"data.train", folder / "tokens.npy"}});
}

TEST_CASE("a checkpoint that does not fit its config.json is refused") {
  TokenRun run;
  Tensors tensors = tensors_of_config();
  std::string bytes = counting_safetensors(tensors);
  run.folder.write("model.safetensors", bytes.replace(bytes.find("F32"), 3, "I32"));
  CHECK_THAT(run.message(), Contains("has dtype I32; allowed: F32, BF16, F16"));
  std::filesystem::remove(run.folder.path() / "model.safetensors");
  CHECK_THAT(run.message(), Contains("'model.source': holds neither"));
  tensors["model.norm.weight"] = {9};
  run.write_tensors(tensors);
  CHECK_THAT(run.message(), Contains("has shape [9], but config.json asks for [8]"));
  tensors.erase("model.norm.weight");
  run.write_tensors(tensors);
  CHECK_THAT(run.message(), Contains("'model.norm.weight' is missing"));
  tensors = tensors_of_config();
  tensors["model.layers.0.self_attn.q_proj.bias"] = {8};
  run.write_tensors(tensors);
  CHECK_THAT(run.message(), Contains("q_proj.bias' is not part"));
}

TEST_CASE("a tied checkpoint needs no head, and an old one may hold rotary constants") {
  TokenRun run;
  Tensors tensors = tensors_of_config();
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {2};
  run.write_tensors(tensors);
  CHECK_NOTHROW(check_inputs(run.spec));
  tensors.erase("lm_head.weight");
  run.write_tensors(tensors);
  CHECK_THAT(run.message(), Contains("'lm_head.weight' is missing"));
  run.folder.write("config.json", config_with("embeddings\": false", "embeddings\": true"));
  CHECK_NOTHROW(check_inputs(run.spec));
}

TEST_CASE("a config.json that asks for a tied head has one of its own if the weights have") {
  TokenRun run;
  run.folder.write("config.json", config_with("embeddings\": false", "embeddings\": true"));
  Tensors tensors = tensors_of_config();
  CHECK_FALSE(model_config(run.spec).tie_word_embeddings);
  CHECK_NOTHROW(check_inputs(run.spec));
  SECTION("no head") {
    tensors.erase("lm_head.weight");
    run.write_tensors(tensors);
  }
  SECTION("a copy of the embedding, which is next in the file") {
    constexpr size_t kSize = 16 * 8 * sizeof(float);
    std::string bytes = counting_safetensors(tensors);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof header);
    const size_t head = sizeof header + header;
    bytes.replace(head, kSize, bytes.substr(head + kSize, kSize));
    run.folder.write("model.safetensors", bytes);
  }
  CHECK(model_config(run.spec).tie_word_embeddings);
  CHECK_NOTHROW(check_inputs(run.spec));
}

TEST_CASE("a checkpoint has heads of the width that its config.json says") {
  TokenRun run;
  run.folder.write("config.json", config_with("\"head_dim\": 4", "\"head_dim\": 6"));
  CHECK_THAT(run.message(), Contains("has shape [8, 8], but config.json asks for [12, 8]"));
  Tensors tensors = tensors_of_config();
  const std::string attention = "model.layers.0.self_attn.";
  tensors[attention + "q_proj.weight"] = {12, 8};
  tensors[attention + "k_proj.weight"] = {6, 8};
  tensors[attention + "v_proj.weight"] = {6, 8};
  tensors[attention + "o_proj.weight"] = {8, 12};
  run.write_tensors(tensors);
  CHECK_NOTHROW(check_inputs(run.spec));
}

TEST_CASE("tokens that do not fit the run are refused") {
  TokenRun run;
  const auto message = [&](int64_t rows, int64_t columns, const std::vector<int32_t>& tokens) {
    run.folder.write("tokens.npy", npy_of(rows, columns, tokens));
    return run.message();
  };
  CHECK_THAT(message(2, 4, {0, 1, 2, 3, 4, 5, 6, 7}),
             Contains("'data.train': has rows of 4 tokens") && Contains("sequence_length + 1 = 5"));
  CHECK_THAT(message(2, 5, {0, 1, 2, 3, 4, 5, 6, 7, 8, 16}),
             Contains("the token 16") && Contains("has 16 tokens") && Contains("allowed: 0 to 15"));
  CHECK_THAT(message(2, 5, {0, 1, 2, 3, 4, -100, 6, 7, 8, 15}), Contains("the token -100"));
  CHECK_THAT(message(1, 5, {0, 1, 2, 3, 4}), Contains("has 1 rows") && Contains("batch.total = 2"));
  run.spec.data.train = "/nowhere.npy";
  CHECK_THAT(run.message(), Contains("/nowhere.npy: 'data.train': cannot be read"));
  run.spec.data.sequence_length = 65;  // the model has 64 positions
  CHECK_THAT(run.message(), Contains("'data.sequence_length': 65") && Contains("at most 64"));
}

TEST_CASE("chess uses the shipped games and tokenizer unless others are named") {
  RunSpec spec = resolved({});
  REQUIRE(spec.data.kind == DataKind::kChess);
  const auto files = input_files(spec);
  REQUIRE(files.size() == 2);
  CHECK(files[0].file.filename() == "games.csv");
  CHECK(files[1].file.filename() == "tokenizer.model");
  CHECK_NOTHROW(check_inputs(spec));

  const TemporaryFolder folder;
  spec.data.train = folder.write("few.csv", "Moves,Termination,Result\n1. e4,DRAW,1/2-1/2\n");
  CHECK(input_files(spec)[0] == NamedInput{"data.train", spec.data.train});
  CHECK_THAT(refusal([&] { check_inputs(spec); }), Contains("has 1 rows"));
}

TEST_CASE("a chess tokenizer that does not fit is refused") {
  RunSpec spec = resolved({});
  const auto shipped = tokenizer_of(spec);
  spec.model.config.vocab_size = 100;
  CHECK_THAT(refusal([&] { check_inputs(spec); }),
             Contains("tokenizer.model: 'model.config.vocab_size': has 1024 pieces") &&
                 Contains("vocabulary has 100 tokens"));
  const TemporaryFolder folder;
  std::string bytes(std::filesystem::file_size(shipped), '\0');
  std::ifstream(shipped, std::ios::binary).read(bytes.data(), std::ssize(bytes));
  spec = resolved({});
  for (const size_t size : {size_t{0}, size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
    spec.data.tokenizer = folder.write("torn.model", bytes.substr(0, size));
    CHECK_THAT(refusal([&] { check_inputs(spec); }), Contains("is no SentencePiece model"));
  }
}

TEST_CASE("games that are none are refused with their line") {
  const TemporaryFolder folder;
  RunSpec spec = resolved({});
  const auto message = [&](const std::string& text) {
    spec.data.train = folder.write("games.csv", text);
    return refusal([&] { check_inputs(spec); });
  };
  const std::string header = "Moves,Termination,Result\n";
  CHECK_THAT(message(""), Contains("games.csv: 'data.train': is empty"));
  CHECK_THAT(message(header), Contains("games.csv: 'data.train': is an empty data set"));
  CHECK_THAT(message("Moves,Result\n1,2\n"),
             Contains("games.csv:2") && Contains("no 'Termination'"));
  CHECK_THAT(message(header + "\"a\nb\",c,d\na,b\n"),
             Contains("games.csv:4") && Contains("has 2 fields"));
}

TEST_CASE("each kind of data names what it needs") {
  const auto message = [](const std::string& keys) {
    return refusal([&] { applied(keys + "\nbatch.size_per_rank: 1"); });
  };
  const auto needs = [](const RunSpec& spec) { return refusal([&] { resolved(spec); }); };
  RunSpec spec;
  spec.data.kind = DataKind::kMessages;
  CHECK_THAT(needs(spec), Contains("'data.train': is missing; data.kind messages needs a file"));
  spec.data.train = "/a.jsonl";
  CHECK_THAT(needs(spec), Contains("'data.tokenizer': is missing"));
  CHECK_THAT(message("data.format: alpaca"), Contains("allowed: llama2, llama3, chatml, mistral"));
  spec.data.tokenizer = tokenizer_of(RunSpec());
  const TemporaryFolder folder;
  spec.data.train = folder.write("a.jsonl", R"({"messages":[{"role":"user","content":"a"}]})");
  CHECK_THAT(refusal([&] { check_inputs(resolved(spec)); }), Contains("'data.format': is missing"));
  spec.data.format = ChatFormat::kLlama3;
  CHECK_THAT(refusal([&] { check_inputs(resolved(spec)); }),
             Contains("'data.tokenizer': has no token for <|start_header_id|>"));
}

TEST_CASE("a folder of tokens has a training and a validation file") {
  TokenRun run;
  const TemporaryFolder folder;
  run.spec.data.train = folder.path();
  run.spec.evaluation.data = folder.path();
  CHECK_THAT(run.message(), Contains("is a folder without one of the files train.npy, train.bin"));
  const auto tokens = bytes_of(std::vector<uint16_t>(100, 3));
  const auto train = folder.write("train.bin", tokens);
  CHECK_THAT(run.message(), Contains("val.npy, val.bin, validation.npy, validation.bin"));
  const auto validation = folder.write("val.bin", tokens);
  CHECK_NOTHROW(check_inputs(run.spec));
  const auto files = input_files(run.spec);
  CHECK(std::ranges::find(files, train, &NamedInput::file) != files.end());
  CHECK(std::ranges::find(files, validation, &NamedInput::file) != files.end());
}

TEST_CASE("what a run resumes from is a checkpoint") {
  const TemporaryFolder folder;
  RunSpec spec = resolved({});
  spec.resume.path = folder.path();
  CHECK_THAT(refusal([&] { check_inputs(spec); }), Contains("is not a checkpoint"));
  folder.write(kTrainerStateName, "{}");
  CHECK_NOTHROW(check_inputs(spec));
}

}  // namespace
}  // namespace fsdp
