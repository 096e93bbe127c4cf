#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "contract/tokenizers/bpe_tokenizer.h"

namespace fsdp {

// The settings in the files beside a tokenizer: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json.
struct FolderSettings {
  std::filesystem::path file;  // tokenizer_config.json; empty when there is none
  std::optional<std::string> begin, end, padding;
  std::optional<bool> adds_begin, adds_end;
  // The rule of LLaMA's tokenizer class, which overrules tokenizer.json or a SentencePiece model.
  // It puts a space before a text, unless the text begins with one.
  std::optional<Metaspace> metaspace;
  std::optional<int32_t> extra_ids;  // of T5
  bool is_t5 = false;
  std::vector<AddedToken> added_tokens;
};

// The file that transformers reads: tokenizer.json, else tokenizer.model or spiece.model. If there
// is a SentencePiece model, a tokenizer.json whose model is Unigram is not read. Throws ConfigError
// if there is no such file.
std::filesystem::path tokenizer_file_of_folder(const std::filesystem::path& folder);

// The settings files that exist in `folder`.
std::vector<std::filesystem::path> settings_files(const std::filesystem::path& folder);

// Throws ConfigError (place: the file, with the key).
FolderSettings read_folder_settings(const std::filesystem::path& folder);

// Adds the settings' tokens and ends of sequences to `parts`.
void apply_settings(const FolderSettings& settings, BpeParts& parts);

}  // namespace fsdp
