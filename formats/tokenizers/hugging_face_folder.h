#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizers/added_tokens.h"

namespace fsdp {

// A file with an id that is not lower is refused. Otherwise it could ask for a model of any size.
inline constexpr int64_t kMostTokens = 1 << 24;

// A part of a user's JSON document, and the key that leads to it. Each error is a ConfigError that
// names the file and the key.
class JsonPart {
 public:
  JsonPart(const std::filesystem::path& file, const nlohmann::json& value, std::string key = "")
      : file_(&file), value_(&value), key_(std::move(key)) {}

  const nlohmann::json& value() const { return *value_; }
  // True for null, also for an absent key.
  bool is_null() const { return value_->is_null(); }
  JsonPart at(std::string_view name) const;
  // The elements of an array.
  std::vector<JsonPart> elements() const;

  std::string text() const;
  // Returns `otherwise` for null.
  bool flag(bool otherwise) const;
  std::string type() const { return at("type").text(); }
  int32_t token_id() const;

  [[noreturn]] void refuse(const std::string& problem) const;
  // Throws "is <value>; allowed: <allowed>".
  [[noreturn]] void refuse_value(const std::string& allowed) const;

 private:
  const std::filesystem::path* file_;
  const nlohmann::json* value_;
  std::string key_;
};

// Reads a token with its flags. Throws ConfigError if its text is empty.
AddedToken read_added_token(const JsonPart& part);

// The replacement of spaces, and the rule for a space before the first word.
struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };
  std::string space = "▁";
  Prepend prepend = Prepend::kAlways;
};

// Returns a piece with spaces for Metaspace's default replacement, "▁".
std::string with_spaces(std::string_view piece);

// The settings in the files beside a tokenizer: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json.
struct FolderSettings {
  std::filesystem::path file;  // tokenizer_config.json; empty when there is none
  std::optional<std::string> begin, end, padding;
  // True if transformers adds the token to a text. The post_processor of a tokenizer.json outranks
  // these flags, except for CodeLlama's class. nullopt without a folder.
  std::optional<bool> adds_begin, adds_end;
  bool is_code_llama = false;
  // The rule of LLaMA's tokenizer class, which overrules tokenizer.json or a SentencePiece model.
  // It puts a space before a text, unless the text begins with one.
  std::optional<Metaspace> metaspace;
  std::optional<int32_t> extra_ids;  // the number of T5's sentinels
  bool is_t5 = false;
  std::vector<AddedToken> added_tokens;
};

// The file that transformers reads: tokenizer.json, else tokenizer.model or spiece.model. If there
// is a SentencePiece model, a tokenizer.json whose model is Unigram is not read. Throws ConfigError
// if there is no such file.
std::filesystem::path tokenizer_file_of_folder(const std::filesystem::path& folder);

// The settings files that exist in `folder`.
std::vector<std::filesystem::path> settings_files(const std::filesystem::path& folder);

// Throws ConfigError (place: the file, with the key) if a file is malformed.
FolderSettings read_folder_settings(const std::filesystem::path& folder);

// Opens the SentencePiece model in `contents`. Adds T5's sentinels if the settings or the file's
// name, spiece.model, say that it is T5's. Throws ConfigError (place: the file).
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file,
                                              std::string_view contents,
                                              const FolderSettings& settings);

}  // namespace fsdp
