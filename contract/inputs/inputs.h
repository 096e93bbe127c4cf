#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "contract/spec/run_spec.h"

// The files that a run reads, and whether they fit its specification; without libtorch, so that the
// runner refuses a run before anything is launched.
namespace fsdp {

// The architecture in a Hugging Face folder's config.json. Throws ConfigError (place: the file)
// when the file is missing or malformed or the architecture none that can be trained.
ModelConfig read_hugging_face_config(const std::filesystem::path& folder);

// The architecture that `spec` trains: of its source, else its config.
ModelConfig model_config(const RunSpec& spec);

// The training set and, for chess, the tokenizer: those that `data` names, else the shipped ones.
// Throws ConfigError when a shipped file is not found.
std::filesystem::path training_file(const DataSpec& data);
std::filesystem::path tokenizer_file(const DataSpec& data);

// Every file the run reads, in a fixed order: a model's config and weights, the training set,
// the tokenizer, the validation set, the files of the checkpoint that `resume` names.
std::vector<std::filesystem::path> input_files(const RunSpec& spec);

// The part of check_inputs that is about the training set, the validation set and the tokenizer,
// for a model of `vocab_size` tokens.
void check_data(const RunSpec& spec, int64_t vocab_size);

// Throws ConfigError when a file is missing, corrupt, or does not fit: tensor names, shapes and
// dtypes against the architecture, row length against sequence_length, tokens against the
// vocabulary, the sequence length against the model's positions, the number of rows against the
// total batch. `spec` is resolved.
void check_inputs(const RunSpec& spec);

}  // namespace fsdp
