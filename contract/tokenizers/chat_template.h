#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

// A tokenizer's chat template, in the language of jinja2.
struct ChatTemplate {
  std::filesystem::path file;  // where it stands
  std::string text;
  std::map<std::string, std::string> variables;  // bos_token, eos_token, ...
};

// The template that transformers uses for the tokenizer at `path`: chat_template.jinja, else
// `chat_template` of tokenizer_config.json. nullopt if `path` is not a folder, or has neither.
// Throws ConfigError (place: the file, with the key).
std::optional<ChatTemplate> read_chat_template(const std::filesystem::path& path);

// The files that read_chat_template() reads and open_tokenizer() does not.
std::vector<std::filesystem::path> chat_template_files(const std::filesystem::path& path);

}  // namespace fsdp
