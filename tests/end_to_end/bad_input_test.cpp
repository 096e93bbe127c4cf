#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/end_to_end/real_runs.h"

// Mistakes in the user's text or files are reported before anything is launched.
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

constexpr int kVocabulary = 64, kHidden = 8;

// A Hugging Face folder of one block whose weights are zeros.
void write_model(const std::filesystem::path& folder) {
  using nlohmann::json;
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "config.json") << json{{"architectures", {"LlamaForCausalLM"}},
                                                {"model_type", "llama"},
                                                {"hidden_act", "silu"},
                                                {"hidden_size", kHidden},
                                                {"intermediate_size", kHidden},
                                                {"num_hidden_layers", 1},
                                                {"num_attention_heads", 2},
                                                {"num_key_value_heads", 2},
                                                {"max_position_embeddings", 64},
                                                {"rms_norm_eps", 1e-5},
                                                {"rope_theta", 10000.0},
                                                {"tie_word_embeddings", false},
                                                {"vocab_size", kVocabulary}};
  json header;
  size_t end = 0;
  const auto add = [&](const std::string& name, const std::vector<int>& shape) {
    size_t bytes = 4;
    for (const int size : shape) bytes *= size_t(size);
    header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  };
  add("model.embed_tokens.weight", {kVocabulary, kHidden});
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
    add("model.layers.0." + std::string(norm) + ".weight", {kHidden});
  }
  for (const char* product :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    add("model.layers.0." + std::string(product) + ".weight", {kHidden, kHidden});
  }
  add("model.norm.weight", {kHidden});
  add("lm_head.weight", {kVocabulary, kHidden});
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t header_bytes = text.size();
  std::ofstream file(folder / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  file << text << std::string(end, '\0');
}

// One point that reads tokens.npy and model/. Both are valid.
class SoundInput : public Workplace {
 public:
  SoundInput()
      : Workplace("  - {name: only}\n",
                  "{device: cpu, train.steps: 2, model.source: model, batch.size_per_rank: 1, "
                  "data: {kind: tokens, train: tokens.npy, sequence_length: 16}}",
                  FSDP_TRAIN_PROGRAM) {
    write_model(*this / "model");
    write_tokens(*this / "tokens.npy", 4, 17, kVocabulary - 1);
  }

  std::filesystem::path weights() const { return *this / "model/model.safetensors"; }
};

void check_refused(const Workplace& workplace, const Ended& ended, const std::string& place,
                   const std::vector<std::string>& said) {
  INFO(ended.errors);
  CHECK(ended.status == 2);
  CHECK(ended.output.empty());
  CHECK_THAT(ended.errors, StartsWith("fsdp-run: ") && Contains(place + ": "));
  for (const std::string& text : said) CHECK_THAT(ended.errors, Contains(text));
  CHECK_FALSE(std::filesystem::exists(workplace.results()));
}

}  // namespace

TEST_CASE("mistakes in an experiment are refused where they are") {
  struct Mistake {
    std::string point, place;
    std::vector<std::string> said;
  };
  const auto mistake = GENERATE(values<Mistake>({
      {"strategy: {kind: ddp, rank: 2}",
       "experiment.yaml:5:41",
       {"'strategy.rank'", "allowed: ", "did you mean 'ranks'?"}},
      {"strategy.kind: fdsp",
       "experiment.yaml:5:34",
       {"'strategy.kind': 'fdsp'", "allowed: single, ddp, fsdp", "did you mean 'fsdp'?"}},
      {"train.steps: many", "experiment.yaml:5:32", {"'train.steps': 'many'", "integer"}},
      {"batch.size_per_rank: 0",
       "experiment.yaml:5:40",
       {"'batch.size_per_rank': 0", "at least 1"}},
      {"data.train: games.csv",
       "experiment.yaml:5:31",
       {"'data.train': ", "/games.csv: cannot be read: No such file"}},
      {"model.source: nowhere",
       "experiment.yaml:5:33",
       {"'model.source': ", "/nowhere/config.json: cannot be read: No such file"}},
      {"strategy: {kind: ddp, ranks: 2}, batch.total: 7, batch.size_per_rank: 2",
       "experiment.yaml:5:65",
       {"'batch.total': 7", "2 per rank x 2 ranks = 4", "nearest", "4 and 8"}},
      {"device: cuda, strategy: {kind: fsdp, ranks: 64}",
       "experiment.yaml:5:63",
       {"'strategy.ranks': 64 ranks need 64 GPUs, but there are "}},
  }));
  const Workplace workplace("  - {name: right}\n  - {name: wrong, " + mistake.point + "}\n",
                            "{device: cpu, train.steps: 2}", FSDP_TRAIN_PROGRAM);
  check_refused(workplace, workplace.run(), mistake.place, mistake.said);
}

TEST_CASE("sound input runs") {
  const SoundInput workplace;
  const Ended ended = workplace.run();
  INFO(ended.errors);
  CHECK(ended.status == 0);
}

TEST_CASE("corrupt weights are refused") {
  const SoundInput workplace;
  std::string said;
  SECTION("cut short") {
    std::filesystem::resize_file(workplace.weights(),
                                 std::filesystem::file_size(workplace.weights()) - 1);
    said = "tensor 'lm_head.weight' ends at byte ";
  }
  SECTION("cut short in the header") {
    std::filesystem::resize_file(workplace.weights(), 100);
    said = "cut short";
  }
  SECTION("garbage in the header") {
    std::fstream(workplace.weights(), std::ios::in | std::ios::out | std::ios::binary).seekp(8)
        << "garbage";
    said = "is not JSON";
  }
  check_refused(workplace, workplace.run(), "model/model.safetensors",
                {"experiment.yaml:2:51: 'model.source': ", said});
}

TEST_CASE("tokens beyond the vocabulary are refused, by the trainer alone too") {
  const SoundInput workplace;
  write_tokens(workplace / "tokens.npy", 4, 17, kVocabulary);
  const std::string said =
      "holds the token 64, but the model's vocabulary has 64 tokens; allowed: 0 to 63";
  check_refused(workplace, workplace.run(), "tokens.npy",
                {"experiment.yaml:2:110: 'data.train': ", said});

  std::ofstream(workplace / "run.yaml")
      << "{device: cpu, train: {steps: 2}, model: {source: model}, batch: {size_per_rank: 1}, "
         "data: {kind: tokens, train: tokens.npy, sequence_length: 16}}\n";
  const Ended ended = Program(workplace / ".", {FSDP_TRAIN_PROGRAM, "--spec", "run.yaml"}).wait();
  CHECK(ended.status == 2);
  CHECK_THAT(ended.errors,
             StartsWith("fsdp-train: ") && Contains("tokens.npy: 'data.train': " + said));
  CHECK_FALSE(std::filesystem::exists(workplace / "attempt-1"));
}
