#include "formats/tokenizers/tokenizer.h"

#include <algorithm>
#include <set>

#include "base/files/input_file.h"
#include "formats/tokenizers/bpe_tokenizer.h"

namespace fsdp {
namespace {

using std::filesystem::path;

// The names in vocab_files_names of transformers' tokenizers, and those of their settings.
const std::set<std::string_view> kNames{"added_tokens.json",
                                        "bpe.codes",
                                        "byte_maps.json",
                                        "chat_template.jinja",
                                        "chat_template.json",
                                        "dict.txt",
                                        "emoji.json",
                                        "entity_vocab.json",
                                        "merges.txt",
                                        "normalizer.json",
                                        "prophetnet.tokenizer",
                                        "sentencepiece.bpe.model",
                                        "sentencepiece.model",
                                        "source.spm",
                                        "special_tokens_map.json",
                                        "spiece.model",
                                        "spm.model",
                                        "spm_char.model",
                                        "target.spm",
                                        "target_vocab.json",
                                        "tekken.json",
                                        "tiktoken.model",
                                        "tokenizer.json",
                                        "tokenizer.model",
                                        "tokenizer_config.json",
                                        "vocab-src.json",
                                        "vocab-tgt.json",
                                        "vocab.json",
                                        "vocab.txt",
                                        "word_pronunciation.json",
                                        "word_shape.json"};

bool is_folder(const path& place) {
  std::error_code error;
  return std::filesystem::is_directory(place, error);
}

std::unique_ptr<Tokenizer> open_file(const path& file, FolderSettings settings) {
  const std::string text = read_input_file(file);
  const bool is_json = file.extension() == ".json";
  if (is_json) {  // as transformers does: the flags count only without a tokenizer.json
    const bool overrules = settings.is_code_llama;
    settings.adds_begin = overrules ? std::optional(true) : std::nullopt;
    settings.adds_end = overrules ? std::optional(false) : std::nullopt;
  }
  if (is_json || looks_like_tiktoken(text)) {
    return std::make_unique<BpeTokenizer>(
        is_json ? read_tokenizer_json(file, text) : read_tiktoken(file, text), settings);
  }
  return open_sentencepiece(file, text, settings);
}

}  // namespace

bool is_of_tokenizer(std::string_view name) {
  if (const size_t slash = name.find('/'); slash != name.npos) {
    return name.substr(0, slash) == kMoreTemplates && name.ends_with(".jinja") &&
           name.find('/', slash + 1) == name.npos;
  }
  // "tokenizer.4.0.0.json" is for that version of transformers or later, "tokenizer.model.v3" of
  // Mistral.
  return kNames.contains(name) || name.starts_with("tokenizer.model.") ||
         (name.starts_with("tokenizer.") && name.ends_with(".json"));
}

std::vector<PlacedFile> transformers_files(const path& place, const char* name_of_model) {
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) {
    if (!std::filesystem::is_regular_file(place, error)) return {};
    return {{place.extension() == ".json" ? "tokenizer.json" : name_of_model, place}};
  }
  std::vector<PlacedFile> files;
  for (const path& folder : {place, place / kMoreTemplates}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      const std::string name = entry.path().lexically_relative(place);
      if (is_of_tokenizer(name) && entry.is_regular_file(error)) files.push_back({name, entry});
    }
  }
  std::ranges::sort(files, {}, &PlacedFile::name);
  return files;
}

std::unique_ptr<Tokenizer> open_tokenizer(const path& place) {
  if (!is_folder(place)) return open_file(place, {});
  return open_file(tokenizer_file_of_folder(place), read_folder_settings(place));
}

std::vector<path> tokenizer_files(const path& place) {
  if (!is_folder(place)) return {place};
  std::vector<path> files{tokenizer_file_of_folder(place)};
  for (path& file : settings_files(place)) files.push_back(std::move(file));
  return files;
}

}  // namespace fsdp
