#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/spec/run_spec.h"
#include "formats/data/prepare.h"

// Finds the files that a run reads and checks them against its specification. Does not use
// libtorch, so the runner can refuse a run before it launches anything.
namespace fsdp {

// The architecture in a Hugging Face folder's config.json. Throws ConfigError (place: the file) if
// the file is missing or malformed, or if the architecture cannot be trained.
ModelConfig read_hugging_face_config(const std::filesystem::path& folder);

// The architecture that `spec` trains: from the config.json and weights of model.source if given,
// else from model.config.
ModelConfig model_config(const RunSpec& spec);

// Returns the keys of the source's config.json that nothing reads and that could change the model.
// Empty without a source.
std::vector<std::string> unread_config_keys(const RunSpec& spec);

// True if data of this kind is text, which needs a tokenizer.
bool needs_tokenizer(DataKind kind);

// The next three functions throw ConfigError if a shipped file, or a file that a folder must hold,
// is missing.

// Returns data.train, or the shipped chess games if it is empty. If data.train is a folder, returns
// its train.npy or train.bin.
std::filesystem::path training_file(const DataSpec& data);
// Returns `data`. If it is a folder, returns its val.npy, val.bin, validation.npy or
// validation.bin.
std::filesystem::path validation_file(const std::filesystem::path& data);
// Returns data.tokenizer. If it is empty, returns the shipped tokenizer for chess, else the model's
// folder.
std::filesystem::path tokenizer_of(const RunSpec& spec);

DataSource data_source(const RunSpec& spec, const std::filesystem::path& file);

struct NamedInput {
  std::string key;  // the key that names the file or its folder: "model.source"
  std::filesystem::path file;

  bool operator==(const NamedInput&) const = default;
};

// Returns every file that the run reads. The order is fixed: model config and weights, adapters,
// training set, tokenizer, validation set, files of the `resume` checkpoint.
std::vector<NamedInput> input_files(const RunSpec& spec);

// Throws ConfigError unless `rows` are enough for a step. `rows` come from the training set's
// `documents`, without those held out.
void check_row_count(const std::filesystem::path& file, int64_t documents, int64_t rows,
                     const RunSpec& spec);
// Returns the rows of the training set, without those held out. nullopt if they are unknown until
// the data is prepared. Throws ConfigError if the file cannot be read.
std::optional<int64_t> training_rows(const RunSpec& spec);
// Throws ConfigError unless all ids of the tokenizer are below `vocab_size`.
void check_tokenizer(const RunSpec& spec, int64_t vocab_size);

// Throws ConfigError if a file is missing, corrupt or does not fit `spec`, which is resolved.
// Tensors must have the architecture's names, shapes and dtypes. Rows must fit sequence_length,
// with tokens of the vocabulary. The sequence length must fit the model's positions, and the rows
// the total batch.
void check_inputs(const RunSpec& spec);
// Makes the checks that each rank repeats: all except those of text data, which is checked when it
// is tokenized.
void check_inputs_of_rank(const RunSpec& spec);

}  // namespace fsdp
