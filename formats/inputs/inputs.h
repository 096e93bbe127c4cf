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

// The architecture that `spec` trains, from its source's config.json and weights, else its config.
ModelConfig model_config(const RunSpec& spec);

// Returns the keys of the source's config.json that nothing reads and that could change the model.
// Empty without a source.
std::vector<std::string> unread_config_keys(const RunSpec& spec);

// True if data of this kind is text, which needs a tokenizer.
bool needs_tokenizer(DataKind kind);

// The training set of `data`, else the shipped one; in a folder train.npy or train.bin. The
// validation set: in a folder val.npy, val.bin, validation.npy or validation.bin. The tokenizer:
// that of `data`, else the shipped one for chess, else the model's folder. Throw ConfigError if a
// shipped file, or one in a folder, is not found.
std::filesystem::path training_file(const DataSpec& data);
std::filesystem::path validation_file(const std::filesystem::path& data);
std::filesystem::path tokenizer_of(const RunSpec& spec);

DataSource data_source(const RunSpec& spec, const std::filesystem::path& file);

struct NamedInput {
  std::string key;  // of the specification that names it, or its folder: "model.source"
  std::filesystem::path file;

  bool operator==(const NamedInput&) const = default;
};

// Every file that the run reads, in a fixed order. The order is: the model's config and weights,
// the adapters, the training set, the tokenizer, the validation set, the files of the `resume` checkpoint.
std::vector<NamedInput> input_files(const RunSpec& spec);

// check_row_count throws ConfigError unless `rows` are enough for a step. `rows` come from the
// training set's documents, without those held out. check_tokenizer throws ConfigError unless the
// tokenizer fits the model.
void check_row_count(const std::filesystem::path& file, int64_t documents, int64_t rows,
                     const RunSpec& spec);
void check_tokenizer(const RunSpec& spec, int64_t vocab_size);

// Throws ConfigError if a file is missing, corrupt or does not fit `spec`, which is resolved.
// Tensors must have the architecture's names, shapes and dtypes. Rows must fit sequence_length,
// with tokens of the vocabulary. The sequence length must fit the model's positions, and the rows
// the total batch.
void check_inputs(const RunSpec& spec);
// Makes the checks of each rank: all except records of text, which are read when they become
// tokens.
void check_inputs_of_rank(const RunSpec& spec);

}  // namespace fsdp
