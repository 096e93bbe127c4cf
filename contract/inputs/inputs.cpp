#include "contract/inputs/inputs.h"

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "contract/inputs/chess_games.h"
#include "contract/inputs/input_file.h"
#include "contract/inputs/npy.h"
#include "contract/inputs/safetensors.h"
#include "contract/inputs/tokenizer.h"
#include "contract/record/run_paths.h"
#include "contract/text/config_error.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Runs `read`, and names the specification's key in an error that only names the file.
template <typename Read>
auto with_key(const std::string& key, Read read) {
  try {
    return read();
  } catch (const ConfigError& error) {
    if (!error.key().empty()) throw;
    throw ConfigError(error.place(), key, error.problem());
  }
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + ']';
}

// Calls visit(name, shape) for every tensor of a LlamaForCausalLM checkpoint.
template <typename Visit>
void visit_llama_tensors(const ModelConfig& config, Visit visit) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const int64_t key_value = hidden / config.num_attention_heads * config.num_key_value_heads;
  visit("model.embed_tokens.weight", {config.vocab_size, hidden});
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + '.';
    visit(prefix + "input_layernorm.weight", {hidden});
    visit(prefix + "self_attn.q_proj.weight", {hidden, hidden});
    visit(prefix + "self_attn.k_proj.weight", {key_value, hidden});
    visit(prefix + "self_attn.v_proj.weight", {key_value, hidden});
    visit(prefix + "self_attn.o_proj.weight", {hidden, hidden});
    visit(prefix + "post_attention_layernorm.weight", {hidden});
    visit(prefix + "mlp.gate_proj.weight", {inner, hidden});
    visit(prefix + "mlp.up_proj.weight", {inner, hidden});
    visit(prefix + "mlp.down_proj.weight", {hidden, inner});
  }
  visit("model.norm.weight", {hidden});
  if (!config.tie_word_embeddings) visit("lm_head.weight", {config.vocab_size, hidden});
}

void check_weights(const path& folder, const ModelConfig& config) {
  const auto refuse = [&](const std::string& name, const std::string& problem) {
    refuse_file(folder, "tensor '" + name + "' " + problem);
  };
  const auto entries = read_safetensors(folder);
  std::set<std::string> expected;
  visit_llama_tensors(config, [&](const std::string& name, const std::vector<int64_t>& shape) {
    const auto found = entries.find(name);
    if (found == entries.end()) {
      refuse(name, "is missing; config.json asks for it with shape " + shape_text(shape));
    }
    const SafetensorsEntry& entry = found->second;
    if (entry.shape != shape) {
      refuse(name, "has shape " + shape_text(entry.shape) + ", but config.json asks for " +
                       shape_text(shape));
    }
    if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16") {
      refuse(name, "has dtype " + entry.dtype + "; allowed: F32, BF16, F16");
    }
    expected.insert(name);
  });
  for (const auto& [name, entry] : entries) {
    // Older checkpoints hold the rotary embedding's constants; tied ones may hold the head.
    const bool is_redundant = name.ends_with(".rotary_emb.inv_freq") ||
                              (config.tie_word_embeddings && name == "lm_head.weight");
    if (!is_redundant && !expected.contains(name)) {
      refuse(name, "is not part of the architecture in config.json");
    }
  }
}

void check_row_count(const path& file, int64_t rows, const RunSpec& spec) {
  const int64_t held_out = held_out_rows(spec.evaluation, rows);
  if (rows - held_out < total_batch(spec)) {
    throw ConfigError(file.string(), spec.data.train.empty() ? "batch.total" : "data.train",
                      "has " + std::to_string(rows) + " rows" +
                          (held_out > 0 ? ", " + std::to_string(held_out) +
                                              " of them held out by evaluation.fraction"
                                        : "") +
                          ", fewer than one step needs; needed: at least batch.total = " +
                          std::to_string(total_batch(spec)));
  }
  planned_steps(spec, (rows - held_out) / total_batch(spec));
}

// Returns the number of rows.
int64_t check_tokens(const path& file, const RunSpec& spec, int64_t vocab_size) {
  const TokenArray tokens(file);
  if (tokens.columns() != spec.data.sequence_length + 1) {
    refuse_file(file, "has rows of " + std::to_string(tokens.columns()) +
                          " tokens; needed: data.sequence_length + 1 = " +
                          std::to_string(spec.data.sequence_length + 1));
  }
  const auto [minimum, maximum] = tokens.minimum_and_maximum();
  if (minimum < 0 || maximum >= vocab_size) {
    refuse_file(file, "holds the token " + std::to_string(minimum < 0 ? minimum : maximum) +
                          ", but the model's vocabulary has " + std::to_string(vocab_size) +
                          " tokens; allowed: 0 to " + std::to_string(vocab_size - 1));
  }
  return tokens.rows();
}

// Returns the number of rows.
int64_t check_data_file(const path& file, const RunSpec& spec, int64_t vocab_size) {
  switch (spec.data.kind) {
    case DataKind::kTokens:
      return check_tokens(file, spec, vocab_size);
    case DataKind::kChess:
      return std::ssize(read_chess_games(file));
  }
  throw std::logic_error("data.kind");
}

void check_tokenizer(const path& file, int64_t vocab_size) {
  const int64_t pieces = Tokenizer(file).vocab_size();
  if (pieces > vocab_size) {
    refuse_file(file, "has " + std::to_string(pieces) + " pieces, but the model's vocabulary has " +
                          std::to_string(vocab_size) + " tokens; needed: vocab_size at least " +
                          std::to_string(pieces));
  }
}

// A checkpoint's trainer.json and what it lists.
std::vector<path> checkpoint_files(const path& checkpoint) {
  const path state = checkpoint / kTrainerStateName;
  std::vector<path> files{state};
  const nlohmann::json object = parse_json_object(state, map_input_file(state)->text());
  for (const nlohmann::json& file : object.value("files", nlohmann::json::array())) {
    if (!file.is_object() || !file.value("name", nlohmann::json()).is_string()) {
      refuse_file(state, "lists a file without a name");
    }
    files.push_back(checkpoint / file.at("name").get<std::string>());
  }
  return files;
}

}  // namespace

ModelConfig model_config(const RunSpec& spec) {
  if (spec.model.source.empty()) return spec.model.config;
  return with_key("model.source", [&] { return read_hugging_face_config(spec.model.source); });
}

std::vector<path> input_files(const RunSpec& spec) {
  std::vector<path> files;
  if (const path& source = spec.model.source; !source.empty()) {
    files = with_key("model.source", [&] { return safetensors_files(source); });
    files.insert(files.begin(), source / "config.json");
  }
  files.push_back(training_file(spec.data));
  if (spec.data.kind == DataKind::kChess) files.push_back(tokenizer_file(spec.data));
  if (!spec.evaluation.data.empty()) files.push_back(spec.evaluation.data);
  if (const path& checkpoint = spec.resume.path; !checkpoint.empty()) {
    for (path& file : with_key("resume", [&] { return checkpoint_files(checkpoint); })) {
      files.push_back(std::move(file));
    }
  }
  return files;
}

void check_data(const RunSpec& spec, int64_t vocab_size) {
  with_key("data.train", [&] {
    const path file = training_file(spec.data);
    check_row_count(file, check_data_file(file, spec, vocab_size), spec);
  });
  if (const path& file = spec.evaluation.data; !file.empty()) {
    with_key("evaluation.data", [&] {
      if (check_data_file(file, spec, vocab_size) == 0) refuse_file(file, "has no rows");
    });
  }
  if (spec.data.kind == DataKind::kChess) {
    const bool both_are_chosen = !spec.data.tokenizer.empty() || !spec.model.source.empty();
    with_key(both_are_chosen ? "data.tokenizer" : "model.config.vocab_size",
             [&] { check_tokenizer(tokenizer_file(spec.data), vocab_size); });
  }
}

void check_inputs(const RunSpec& spec) {
  const ModelConfig config = model_config(spec);
  if (const path& source = spec.model.source; !source.empty()) {
    with_key("model.source", [&] { check_weights(source, config); });
  }
  if (spec.data.sequence_length > config.max_position_embeddings) {
    throw ConfigError("", "data.sequence_length",
                      std::to_string(spec.data.sequence_length) +
                          " is longer than the model's positions; allowed: at most " +
                          std::to_string(config.max_position_embeddings));
  }
  check_data(spec, config.vocab_size);
  if (const path& folder = spec.resume.path; !folder.empty() && !with_key("resume", [&] {
        return input_exists(folder / kTrainerStateName);
      })) {
    throw ConfigError(folder.string(), "resume",
                      "is not a checkpoint: it has no trainer.json; give a folder such as "
                      "<run>/checkpoints/step-100, or auto");
  }
}

}  // namespace fsdp
