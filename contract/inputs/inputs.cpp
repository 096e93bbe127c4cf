#include "contract/inputs/inputs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "contract/families/family.h"
#include "contract/inputs/chess_games.h"
#include "contract/files/input_file.h"
#include "contract/inputs/hub_inputs.h"
#include "contract/inputs/npy.h"
#include "contract/inputs/safetensors.h"
#include "contract/tokenizers/tokenizer.h"
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

void check_weights(const path& folder, const ModelConfig& config) {
  const auto refuse = [&](const std::string& name, const std::string& problem) {
    refuse_file(folder, "tensor '" + name + "' " + problem);
  };
  const auto entries = read_safetensors(folder);
  std::set<std::string> expected;
  const auto check_tensor = [&](const NamedTensor& tensor) {
    const auto found = entries.find(tensor.name);
    if (found == entries.end()) {
      refuse(tensor.name,
             "is missing; config.json asks for it with shape " + shape_text(tensor.shape));
    }
    const SafetensorsEntry& entry = found->second;
    if (entry.shape != tensor.shape) {
      refuse(tensor.name, "has shape " + shape_text(entry.shape) + ", but config.json asks for " +
                              shape_text(tensor.shape));
    }
    if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16") {
      refuse(tensor.name, "has dtype " + entry.dtype + "; allowed: F32, BF16, F16");
    }
    expected.insert(tensor.name);
  };
  for_each_module(config, [&](const ModuleSpec& module) {
    for (const ParameterSpec& parameter : module.parameters) {
      std::ranges::for_each(parameter.tensors, check_tensor);
    }
  });
  const ModelFamily& family = family_of(config);
  for (const auto& [name, entry] : entries) {
    if (!expected.contains(name) && !family.may_be_left(config, name)) {
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

ModelConfig read_hugging_face_config(const path& folder) {
  const path file = folder / "config.json";
  return read_model_config({file, parse_json_object(file, map_input_file(file)->text())});
}

ModelConfig model_config(const RunSpec& spec) {
  if (spec.model.source.empty()) return spec.model.config;
  return with_key("model.source", [&] { return read_hugging_face_config(spec.model.source); });
}

std::vector<path> input_files(const RunSpec& spec) {
  require_fetched(spec);
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
  require_fetched(spec);
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
