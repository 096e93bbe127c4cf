#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/data/prepare.h"
#include "contract/spec/run_spec.h"

// The files that a run reads, and whether they fit its specification; without libtorch, so that the
// runner refuses a run before anything is launched.
namespace fsdp {

// The architecture in a Hugging Face folder's config.json. Throws ConfigError (place: the file)
// when the file is missing or malformed or the architecture none that can be trained.
ModelConfig read_hugging_face_config(const std::filesystem::path& folder);

// The architecture that `spec` trains: of its source's config.json and weights, else its config.
ModelConfig model_config(const RunSpec& spec);

// Returns the keys of the source's config.json that nothing reads, and that could ask for another
// model than the one that is trained. None without a source.
std::vector<std::string> unread_config_keys(const RunSpec& spec);

// Whether data of this kind is text, which a tokenizer makes documents of.
bool needs_tokenizer(DataKind kind);

// The training set that `data` names, else the shipped one; of a folder its train.npy or train.bin.
// The validation set: of a folder its val.npy, val.bin, validation.npy or validation.bin.
// The tokenizer: that of `data`, for chess else the shipped one, else the model's folder.
// Throw ConfigError when a shipped file, or one of a folder, is not found.
std::filesystem::path training_file(const DataSpec& data);
std::filesystem::path validation_file(const std::filesystem::path& data);
std::filesystem::path tokenizer_of(const RunSpec& spec);

// What the prepared file of the data file `file` is made of.
DataSource data_source(const RunSpec& spec, const std::filesystem::path& file);

struct NamedInput {
  std::string key;  // of the specification that names it, or its folder: "model.source"
  std::filesystem::path file;

  bool operator==(const NamedInput&) const = default;
};

// Every file the run reads, in a fixed order: a model's config and weights, the training set,
// the tokenizer, the validation set, the files of the checkpoint that `resume` names.
std::vector<NamedInput> input_files(const RunSpec& spec);

// Whether the `rows` that a training set's documents become, those held out left aside, are enough
// for a step; whether the tokenizer fits the model. Throw ConfigError.
void check_row_count(const std::filesystem::path& file, int64_t documents, int64_t rows,
                     const RunSpec& spec);
void check_tokenizer(const RunSpec& spec, int64_t vocab_size);

// Throws ConfigError when a file is missing, corrupt, or does not fit: tensor names, shapes and
// dtypes against the architecture, row length against sequence_length, tokens against the
// vocabulary, the sequence length against the model's positions, the number of rows against the
// total batch. `spec` is resolved.
void check_inputs(const RunSpec& spec);
// Of that what each rank checks: all but the records of texts, which are read when they become
// tokens.
void check_inputs_of_rank(const RunSpec& spec);

}  // namespace fsdp
