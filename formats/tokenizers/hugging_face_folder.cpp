// Reads the settings beside a tokenizer, as transformers does: special tokens, templates.
#include "formats/tokenizers/hugging_face_folder.h"

#include <charconv>
#include <set>

#include "base/files/input_file.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
constexpr const char* kAddedTokens = "added_tokens.json";
constexpr const char* kChatTemplate = "chat_template.jinja";
constexpr size_t kWhereModelIsTold = 1 << 20;
constexpr size_t kMostOfValue = 80;
constexpr int32_t kMostSentinels = 10'000;  // T5 has 100

// Returns the token of a text, or of an object with a text as `content`; nullopt for null.
std::optional<std::string> token_text(const JsonPart& part) {
  if (part.is_null()) return std::nullopt;
  return part.value().is_object() ? part.at("content").text() : part.text();
}

// Reads the begin, end and padding tokens, except those that an earlier file has set.
void read_ends(const JsonPart& root, FolderSettings& settings) {
  const auto read = [&](const char* name, std::optional<std::string>& token) {
    if (!token) token = token_text(root.at(name));
  };
  read("bos_token", settings.begin);
  read("eos_token", settings.end);
  read("pad_token", settings.padding);
}

void read_added_tokens_decoder(const JsonPart& part, FolderSettings& settings) {
  if (part.is_null()) return;
  if (!part.value().is_object()) part.refuse_value("an object of ids and tokens");
  for (const auto& [id, value] : part.value().items()) {
    const JsonPart each = part.at(id);
    AddedToken token = read_added_token(each);
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), token.id);
    if (error != std::errc() || end != id.data() + id.size() || token.id < 0 ||
        token.id >= kMostTokens) {
      each.refuse("is no id; allowed: 0 to " + std::to_string(kMostTokens - 1));
    }
    settings.added_tokens.push_back(std::move(token));
  }
}

// Reads what the class of the tokenizer decides.
void read_class(const JsonPart& root, FolderSettings& settings) {
  const JsonPart part = root.at("tokenizer_class");
  const std::string name = part.is_null() ? "" : part.text();
  settings.is_t5 = name.starts_with("T5");
  settings.is_code_llama = name.starts_with("CodeLlama");
  settings.adds_begin = root.at("add_bos_token").flag(settings.is_code_llama);
  settings.adds_end = root.at("add_eos_token").flag(false);
  if (!name.starts_with("Llama") && !settings.is_code_llama) return;
  const bool is_legacy = !settings.is_code_llama && root.at("legacy").flag(false);
  settings.metaspace.emplace();
  settings.metaspace->prepend = !root.at("add_prefix_space").flag(true) ? Metaspace::Prepend::kNever
                                : is_legacy ? Metaspace::Prepend::kAlways
                                            : Metaspace::Prepend::kFirst;
}

void read_config(const path& file, FolderSettings& settings) {
  const nlohmann::json document = read_json_object(file);
  const JsonPart root(file, document);
  settings.file = file;
  read_ends(root, settings);
  read_class(root, settings);
  if (const JsonPart extra = root.at("extra_ids"); !extra.is_null()) {
    settings.extra_ids = extra.token_id();
    if (*settings.extra_ids > kMostSentinels) {
      extra.refuse_value("0 to " + std::to_string(kMostSentinels));
    }
  }
  read_added_tokens_decoder(root.at("added_tokens_decoder"), settings);
}

void read_added_tokens(const path& file, FolderSettings& settings) {
  const nlohmann::json document = read_json_object(file);
  const JsonPart root(file, document);
  for (const auto& [text, id] : document.items()) {
    AddedToken token;
    token.text = text;
    token.id = root.at(text).token_id();
    if (text.empty()) root.refuse("has an empty text");
    token.is_special = text == settings.begin || text == settings.end || text == settings.padding;
    token.is_normalized = !token.is_special;
    settings.added_tokens.push_back(std::move(token));
  }
}

// True if tokenizer.json says that its model is Unigram. A SentencePiece model beside it holds the
// same pieces.
bool is_unigram(const path& file) {
  const std::string contents = read_input_file(file);
  // JSON allows keys in any order, but the library tokenizers writes a model's type first.
  const std::string_view text = contents;
  const size_t model = text.find("\"model\"");
  if (model == std::string_view::npos) return false;
  const std::string_view begin = text.substr(model, kWhereModelIsTold);
  const size_t type = begin.find("\"type\"");
  return type != std::string_view::npos &&
         begin.substr(type, 32).find("\"Unigram\"") != std::string_view::npos;
}

// Adds the tokens in the object `part`: bos_token, eos_token, image_token.
void add_variables(const JsonPart& part, std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : part.value().items()) {
    if (!name.ends_with("_token") || !(value.is_string() || value.is_object())) continue;
    if (auto text = token_text(part.at(name))) variables.emplace(name, std::move(*text));
  }
}

// Returns `part` if it is a text, or the template named default if it is a list of named ones.
std::optional<std::string> default_template(const JsonPart& part) {
  if (part.is_null()) return std::nullopt;
  if (part.value().is_string()) return part.text();
  if (!part.value().is_array()) {
    part.refuse_value("a text, or a list of objects with name, template");
  }
  std::string names;
  for (const JsonPart& each : part.elements()) {
    const std::string name = each.at("name").text();
    if (name == "default") return each.at("template").text();
    names += (names.empty() ? "" : ", ") + name;
  }
  part.refuse("has no template named default, but: " + (names.empty() ? "none" : names));
}

}  // namespace

JsonPart JsonPart::at(std::string_view name) const {
  static const nlohmann::json kNull;
  if (!value_->is_object()) refuse_value("an object");
  const auto found = value_->find(name);
  return JsonPart(*file_, found == value_->end() ? kNull : *found,
                  (key_.empty() ? "" : key_ + '.') + std::string(name));
}

std::vector<JsonPart> JsonPart::elements() const {
  if (!value_->is_array()) refuse_value("a list");
  std::vector<JsonPart> parts;
  for (size_t i = 0; i < value_->size(); ++i) {
    parts.emplace_back(*file_, (*value_)[i], key_ + '[' + std::to_string(i) + ']');
  }
  return parts;
}

std::string JsonPart::text() const {
  if (!value_->is_string()) refuse_value("a text");
  return value_->get<std::string>();
}

bool JsonPart::flag(bool otherwise) const {
  if (value_->is_null()) return otherwise;
  if (!value_->is_boolean()) refuse_value("true, false");
  return value_->get<bool>();
}

int32_t JsonPart::token_id() const {
  const auto refuse_id = [&] { refuse_value("0 to " + std::to_string(kMostTokens - 1)); };
  if (!value_->is_number_unsigned()) refuse_id();
  const auto id = value_->get<uint64_t>();
  if (id >= kMostTokens) refuse_id();
  return static_cast<int32_t>(id);
}

void JsonPart::refuse(const std::string& problem) const {
  throw ConfigError(file_->string(), visible_line(shortened(key_, kMostOfValue)),
                    shortened(problem, kMostOfMessage));
}

void JsonPart::refuse_value(const std::string& allowed) const {
  const std::string text = value_->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  refuse("is " + visible_line(shortened(text, kMostOfValue)) + "; allowed: " + allowed);
}

AddedToken read_added_token(const JsonPart& part) {
  AddedToken token;
  token.text = part.at("content").text();
  if (token.text.empty()) part.at("content").refuse("is an empty text");
  token.is_special = part.at("special").flag(false);
  token.is_normalized = part.at("normalized").flag(!token.is_special);
  token.takes_left = part.at("lstrip").flag(false);
  token.takes_right = part.at("rstrip").flag(false);
  token.is_whole_word = part.at("single_word").flag(false);
  return token;
}

path tokenizer_file_of_folder(const path& folder) {
  path sentencepiece;
  for (const char* const name : {"tokenizer.model", "spiece.model"}) {
    if (sentencepiece.empty() && input_exists(folder / name)) sentencepiece = folder / name;
  }
  const path json = folder / "tokenizer.json";
  if (input_exists(json) && (sentencepiece.empty() || !is_unigram(json))) return json;
  if (!sentencepiece.empty()) return sentencepiece;
  refuse_file(folder, "has no tokenizer; needed: tokenizer.json, tokenizer.model or spiece.model");
}

std::vector<path> settings_files(const path& folder) {
  std::vector<path> files;
  for (const char* const name : {kConfig, kSpecialTokensMap, kAddedTokens}) {
    if (input_exists(folder / name)) files.push_back(folder / name);
  }
  return files;
}

std::vector<path> chat_template_files(const path& folder) {
  if (!input_exists(folder / kChatTemplate)) return {};
  return {folder / kChatTemplate};
}

std::optional<ChatTemplate> read_chat_template(const path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return std::nullopt;
  ChatTemplate read;
  for (const path& file : chat_template_files(folder)) {
    read.file = file;
    read.text = read_input_file(file);
    if (!is_utf8(read.text)) refuse_file(file, "is not UTF-8");
  }
  // tokenizer_config.json comes first: its tokens win over the other file's.
  for (const char* const name : {kConfig, kSpecialTokensMap}) {
    const path file = folder / name;
    if (!input_exists(file)) continue;
    const nlohmann::json document = read_json_object(file);
    const JsonPart root(file, document);
    if (name == kConfig && read.file.empty()) {
      if (auto text = default_template(root.at("chat_template"))) {
        read.file = file;
        read.text = std::move(*text);
      }
    }
    add_variables(root, read.variables);
    for (const char* const tokens : {"extra_special_tokens", "model_specific_special_tokens"}) {
      if (const JsonPart more = root.at(tokens); more.value().is_object()) {
        add_variables(more, read.variables);
      }
    }
  }
  if (read.file.empty()) return std::nullopt;
  return read;
}

FolderSettings read_folder_settings(const path& folder) {
  FolderSettings settings;
  settings.adds_begin = settings.adds_end = false;
  for (const path& file : settings_files(folder)) {
    if (file.filename() == kConfig) {
      read_config(file, settings);
    } else if (file.filename() == kSpecialTokensMap) {
      const nlohmann::json document = read_json_object(file);
      read_ends(JsonPart(file, document), settings);
    } else {
      read_added_tokens(file, settings);
    }
  }
  // If several tokens have one text, the first counts.
  std::set<std::string> texts;
  std::erase_if(settings.added_tokens,
                [&](const AddedToken& token) { return !texts.insert(token.text).second; });
  return settings;
}

}  // namespace fsdp
