#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "contract/tokenizers/bpe_tokenizer.h"

namespace fsdp {

// What the files beside a tokenizer say of it: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json.
struct FolderSettings {
  std::filesystem::path file;  // tokenizer_config.json; empty when there is none
  std::optional<std::string> begin, end, padding;
  std::optional<bool> adds_begin, adds_end;
  // Of LLaMA's class, which overrules what a tokenizer.json or a SentencePiece model says: the
  // space before a text, which one that begins with a space does not get.
  std::optional<Metaspace> metaspace;
  std::optional<int32_t> extra_ids;  // of T5
  bool is_t5 = false;
  std::vector<AddedToken> added_tokens;
};

// The file that transformers reads: tokenizer.json, unless it is of a kind for which a
// SentencePiece model lies beside it; else tokenizer.model or spiece.model. Throws ConfigError
// where none is.
std::filesystem::path tokenizer_file_of_folder(const std::filesystem::path& folder);

// Those of the files that are there.
std::vector<std::filesystem::path> settings_files(const std::filesystem::path& folder);

// Throws ConfigError (place: the file, with the key).
FolderSettings read_folder_settings(const std::filesystem::path& folder);

// Adds its tokens and the ends of sequences.
void apply_settings(const FolderSettings& settings, BpeParts& parts);

}  // namespace fsdp
