// Finds the input files of a run, and checks what can be checked without libtorch.
#include "formats/inputs/inputs.h"

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/files/input_file.h"
#include "base/text/config_error.h"
#include "contract/families/adapters.h"
#include "contract/families/family.h"
#include "contract/record/run_paths.h"
#include "formats/data/document.h"
#include "formats/inputs/hub_inputs.h"
#include "formats/tokenizers/tokenizer.h"
#include "formats/weights/weights.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// Finds a shipped chess file: in chess/ beside this executable, else in the source folder.
path find_shipped(const std::string& name, const std::string& key) {
  const path executable = std::filesystem::read_symlink("/proc/self/exe");
  const path bundled = executable.parent_path() / "chess" / name;
  if (std::filesystem::exists(bundled)) return bundled;
  const path source = path(FSDP_CHESS_FOLDER) / name;
  if (std::filesystem::exists(source)) return source;
  throw ConfigError("", key,
                    "is absent, and the shipped " + name + " is neither " + bundled.string() +
                        " nor " + source.string() + "; name a file");
}

// The first of these files that `folder` has.
path file_in(const path& folder, std::initializer_list<std::string_view> names) {
  std::string allowed;
  for (const std::string_view name : names) {
    if (input_exists(folder / name)) return folder / name;
    allowed += (allowed.empty() ? "" : ", ") + std::string(name);
  }
  refuse_file(folder, "is a folder without one of the files " + allowed);
}

bool is_folder(const path& data) {
  std::error_code ignored;
  return std::filesystem::is_directory(data, ignored);
}

// Runs `read`. Adds the specification's key to an error that names only the file.
template <typename Read>
auto with_key(const std::string& key, Read read) {
  try {
    return read();
  } catch (const ConfigError& error) {
    if (!error.key().empty()) throw;
    throw ConfigError(error.place(), key, error.problem());
  }
}

// Returns the number of documents.
int64_t check_data_file(const path& file, const RunSpec& spec, int64_t vocab_size) {
  if (!needs_tokenizer(spec.data.kind)) {
    return open_token_file(file, spec.data.sequence_length, vocab_size, spec.data.token_dtype)
        ->count();
  }
  return count_documents(data_source(spec, file));
}

// A checkpoint's trainer.json and the files that it lists, except the merged model's.
std::vector<path> checkpoint_files(const path& checkpoint) {
  const path state = checkpoint / kTrainerStateName;
  std::vector<path> files{state};
  const nlohmann::json object = read_json_object(state);
  for (const nlohmann::json& file : object.value("files", nlohmann::json::array())) {
    if (!file.is_object() || !file.value("name", nlohmann::json()).is_string()) {
      refuse_file(state, "lists a file without a name");
    }
    const auto name = file.at("name").get<std::string>();
    if (!is_of_merged_model(name)) files.push_back(checkpoint / name);
  }
  return files;
}

// Refuses a preset's name and an adapter's folder, which users mistake for a model's folder.
void refuse_what_is_no_model(const path& folder) {
  if (input_exists(folder / "config.json")) return;
  const std::string name = folder.filename();
  if (!input_exists(folder) && find_preset(name)) {
    refuse_file(folder, "is no folder; " + name + " is a preset, so write model.config: " + name +
                            " (random weights), or give a model's folder or organization/name");
  }
  if (input_exists(folder / "adapter_config.json")) {
    refuse_file(folder,
                "is an adapter (adapter_config.json), not a whole model; give the folder of a "
                "merged model: a checkpoint's folder merged, which checkpoint.merge: true writes, "
                "or peft's (merge_and_unload, then save_pretrained)");
  }
}

HuggingFaceConfig config_file(const path& folder) {
  refuse_what_is_no_model(folder);
  const path file = folder / "config.json";
  return {file, read_json_object(file)};
}

// True if each document is one row. Otherwise documents are packed, or continue in the next row.
bool documents_are_rows(const DataSpec& data) {
  return data.rows != RowFill::kPack && data.kind != DataKind::kText;
}

void check_data(const RunSpec& spec, int64_t vocab_size) {
  if (needs_tokenizer(spec.data.kind)) check_tokenizer(spec, vocab_size);
  with_key("data.train", [&] {
    const path file = training_file(spec.data);
    const int64_t documents = check_data_file(file, spec, vocab_size);
    const int64_t trained = documents - held_out_rows(spec.evaluation, documents);
    // If documents are not rows, the number of rows is unknown until the data is prepared.
    const bool are_rows = documents_are_rows(spec.data);
    check_row_count(file, documents, are_rows ? trained : std::max(trained, total_batch(spec)),
                    spec);
  });
  if (const path& data = spec.evaluation.data; !data.empty()) {
    with_key("evaluation.data", [&] {
      const path file = validation_file(data);
      if (check_data_file(file, spec, vocab_size) == 0) refuse_file(file, "has no rows");
    });
  }
}

// Refuses data that cannot train a model with an encoder and a decoder.
void check_pairs(const DataSpec& data, const ModelConfig& config) {
  if (family_of(config).structure != ModelStructure::kEncoderDecoder) return;
  if (data.kind != DataKind::kWikihow && data.kind != DataKind::kInstructions) {
    throw ConfigError("", "data.kind",
                      std::string(name_of(data.kind)) + " has no input for the encoder of " +
                          config.architecture + "; allowed: wikihow, instructions");
  }
  if (data.rows == RowFill::kPack) {
    throw ConfigError(
        "", "data.rows",
        "pack is not built for " + config.architecture + "; allowed: pad, pad_to_longest");
  }
}

// Returns the model's architecture.
ModelConfig check_model_inputs(const RunSpec& spec) {
  require_fetched(spec);
  const ModelConfig config = model_config(spec);
  if (const path& source = spec.model.source; !source.empty()) {
    with_key("model.source", [&] { check_weights(source, config, spec.method); });
    if (spec.method != Method::kFull) check_adapters(config, spec.lora);
  }
  if (const path& adapter = spec.lora.adapter; !adapter.empty()) {
    with_key("lora.adapter", [&] { check_adapter(adapter, config, spec.lora); });
  }
  check_pairs(spec.data, config);
  if (takes_key(family_of(config), "max_position_embeddings") &&
      spec.data.sequence_length > config.max_position_embeddings) {
    throw ConfigError("", "data.sequence_length",
                      std::to_string(spec.data.sequence_length) +
                          " is longer than the model's positions; allowed: at most " +
                          std::to_string(config.max_position_embeddings));
  }
  if (const path& folder = spec.resume.path; !folder.empty() && !with_key("resume", [&] {
        return input_exists(folder / kTrainerStateName);
      })) {
    throw ConfigError(folder.string(), "resume",
                      "is not a checkpoint: it has no trainer.json; give a folder such as "
                      "<run>/checkpoints/step-100, or auto");
  }
  return config;
}

}  // namespace

bool needs_tokenizer(DataKind kind) { return kind != DataKind::kTokens; }

// Finds the shipped file only once, because a sweep asks for it in each run.
path training_file(const DataSpec& data) {
  if (is_folder(data.train)) return file_in(data.train, {"train.npy", "train.bin"});
  if (!data.train.empty()) return data.train;
  static const path kShipped = find_shipped("games.csv", "data.train");
  return kShipped;
}

path validation_file(const path& data) {
  if (!is_folder(data)) return data;
  return file_in(data, {"val.npy", "val.bin", "validation.npy", "validation.bin"});
}

path tokenizer_of(const RunSpec& spec) {
  if (!spec.data.tokenizer.empty()) return spec.data.tokenizer;
  if (spec.data.kind != DataKind::kChess) return spec.model.source;
  static const path kShipped = find_shipped("tokenizer.model", "data.tokenizer");
  return kShipped;
}

ModelConfig read_hugging_face_config(const path& folder) {
  return read_model_config(config_file(folder));
}

namespace {

bool has_encoder(const RunSpec& spec) {
  const path& source = spec.model.source;
  const ModelConfig config =
      source.empty() ? spec.model.config
                     : with_key("model.source", [&] { return read_hugging_face_config(source); });
  return family_of(config).structure == ModelStructure::kEncoderDecoder;
}

}  // namespace

ModelConfig model_config(const RunSpec& spec) {
  if (spec.model.source.empty()) return spec.model.config;
  if (spec.model.source.native().starts_with(kHubScheme)) require_fetched(spec);
  return with_key("model.source", [&] {
    return with_stored_head(spec.model.source, read_hugging_face_config(spec.model.source));
  });
}

DataSource data_source(const RunSpec& spec, const path& file) {
  DataSource source{.file = file, .tokenizer = tokenizer_of(spec), .data = spec.data};
  if (spec.data.kind == DataKind::kInstructions && has_encoder(spec)) {
    source.data.columns.history.clear();  // an encoder and a decoder read one question, one answer
  }
  return source;
}

std::vector<std::string> unread_config_keys(const RunSpec& spec) {
  if (spec.model.source.empty()) return {};
  const HuggingFaceConfig file = config_file(spec.model.source);
  read_model_config(file);
  return file.unread_keys();
}

std::vector<NamedInput> input_files(const RunSpec& spec) {
  require_fetched(spec);
  std::vector<NamedInput> inputs;
  const auto add = [&](const std::string& key, const auto& list_files) {
    for (path& file : with_key(key, list_files)) inputs.push_back({key, std::move(file)});
  };
  if (const path& source = spec.model.source; !source.empty()) {
    inputs.push_back({"model.source", source / "config.json"});
    add("model.source", [&] { return weight_files(source); });
  }
  if (const path& adapter = spec.lora.adapter; !adapter.empty()) {
    inputs.push_back({"lora.adapter", adapter / "adapter_config.json"});
    add("lora.adapter", [&] { return weight_files(adapter, WeightsOf::kAdapter); });
  }
  inputs.push_back({"data.train", training_file(spec.data)});
  if (needs_tokenizer(spec.data.kind)) {
    const DataSource source = data_source(spec, training_file(spec.data));
    add("data.tokenizer", [&] { return tokenizer_files(source); });
  }
  if (!spec.evaluation.data.empty()) {
    inputs.push_back({"evaluation.data", validation_file(spec.evaluation.data)});
  }
  if (const path& checkpoint = spec.resume.path; !checkpoint.empty()) {
    add("resume", [&] { return checkpoint_files(checkpoint); });
  }
  return inputs;
}

void check_row_count(const path& file, int64_t documents, int64_t rows, const RunSpec& spec) {
  if (documents == 0) refuse_file(file, "is an empty data set: it has no record");
  const int64_t held_out = held_out_rows(spec.evaluation, documents);
  if (rows < total_batch(spec)) {
    const bool are_rows = documents_are_rows(spec.data);
    throw ConfigError(file.string(), spec.data.train.empty() ? "batch.total" : "data.train",
                      "has " + std::to_string(documents) + (are_rows ? " rows" : " documents") +
                          (held_out > 0 ? ", " + std::to_string(held_out) +
                                              " of them held out by evaluation.fraction"
                                        : "") +
                          (are_rows ? "" : ", which make " + std::to_string(rows) + " rows") +
                          ", fewer than one step needs; needed: at least batch.total = " +
                          std::to_string(total_batch(spec)));
  }
  planned_steps(spec, rows / total_batch(spec));
}

std::optional<int64_t> training_rows(const RunSpec& spec) {
  if (!documents_are_rows(spec.data)) return std::nullopt;
  const int64_t documents =
      check_data_file(training_file(spec.data), spec, std::numeric_limits<int64_t>::max());
  return documents - held_out_rows(spec.evaluation, documents);
}

void check_tokenizer(const RunSpec& spec, int64_t vocab_size) {
  const bool both_are_chosen = !spec.data.tokenizer.empty() || !spec.model.source.empty();
  with_key(both_are_chosen ? "data.tokenizer" : "model.config.vocab_size", [&] {
    const path file = tokenizer_of(spec);
    const int64_t pieces = open_tokenizer(file)->vocab_size();
    if (pieces <= vocab_size) return;
    refuse_file(file, "has " + std::to_string(pieces) + " pieces, but the model's vocabulary has " +
                          std::to_string(vocab_size) + " tokens; needed: vocab_size at least " +
                          std::to_string(pieces));
  });
}

void check_inputs(const RunSpec& spec) { check_data(spec, check_model_inputs(spec).vocab_size); }

void check_inputs_of_rank(const RunSpec& spec) {
  const ModelConfig config = check_model_inputs(spec);
  if (!needs_tokenizer(spec.data.kind)) check_data(spec, config.vocab_size);
}

}  // namespace fsdp
