// Opens a tokenizer. Its file or folder shows its kind.
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

constexpr const char* kConfigName = "tokenizer_config.json";

// True if tokenizer_file_of_folder() finds a file in this one's folder.
bool is_main_file(const PlacedFile& file) {
  return file.name == "tokenizer.json" || file.name == "tokenizer.model" ||
         file.name == "spiece.model";
}

bool is_tiktoken(const path& file) {
  return file.extension() != ".json" && looks_like_tiktoken(read_input_file(file));
}

// True if the tokenizer's main file alone says how it is read. A folder of this kind is read as its
// file, because neither a run's identity nor prepared data tell them apart.
bool is_one_file(const path& place) { return !is_folder(place) || settings_files(place).empty(); }

// Returns the text of a tokenizer_config.json with which transformers reads `file` of `place` as
// open_tokenizer(place) does. Without one, it would take the class that belongs to the model.
std::string config_for(const path& place, const path& file, bool is_t5) {
  if (file.extension() == ".json" || is_tiktoken(file)) {
    return "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}\n";
  }
  if (!is_t5) {
    return std::string("{\"tokenizer_class\": \"LlamaTokenizer\", \"legacy\": false, ") +
           "\"add_bos_token\": " + (is_one_file(place) ? "true" : "false") + "}\n";
  }
  const std::string extra_ids = file.filename() == "spiece.model" ? "100" : "0";
  return "{\"tokenizer_class\": \"T5Tokenizer\", \"extra_ids\": " + extra_ids + "}\n";
}

// False for a pointer of Git LFS, for example. No run reads such a file, and it must not end a run
// that saves its checkpoint.
bool can_be_copied(const std::string& name, const path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error) || !is_utf8(name)) return false;
  try {
    const InputFile opened(file);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
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
  constexpr std::string_view kOfMistral = "tokenizer.model.v";
  const bool is_of_mistral =
      name.starts_with(kOfMistral) && name.find('.', kOfMistral.size()) == std::string_view::npos;
  return kNames.contains(name) || is_of_mistral ||
         (name.starts_with("tokenizer.") && name.ends_with(".json"));
}

std::vector<PlacedFile> transformers_files(const path& place, bool is_t5) {
  std::error_code error;
  std::vector<PlacedFile> files;
  path file = place;
  if (is_folder(place)) {
    for (const path& folder : {place, place / kMoreTemplates}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        const std::string name = entry.path().lexically_relative(place);
        if (is_of_tokenizer(name) && can_be_copied(name, entry)) files.push_back({name, entry});
      }
    }
    std::ranges::sort(files, {}, &PlacedFile::name);
    if (std::ranges::any_of(files, is_main_file)) file = tokenizer_file_of_folder(place);
  } else if (std::filesystem::is_regular_file(place, error) && !is_tiktoken(place)) {
    const char* const model = is_t5 ? "spiece.model" : "tokenizer.model";
    files.push_back({place.extension() == ".json" ? "tokenizer.json" : model, place});
  }
  if (!is_folder(file) && !files.empty() &&
      std::ranges::find(files, kConfigName, &PlacedFile::name) == files.end()) {
    files.push_back({kConfigName, {}, config_for(place, file, is_t5)});
  }
  return files;
}

std::unique_ptr<Tokenizer> open_tokenizer(const path& place) {
  const path file = is_folder(place) ? tokenizer_file_of_folder(place) : place;
  return open_file(file, is_one_file(place) ? FolderSettings() : read_folder_settings(place));
}

std::vector<path> tokenizer_files(const path& place) {
  if (!is_folder(place)) return {place};
  std::vector<path> files{tokenizer_file_of_folder(place)};
  for (path& file : settings_files(place)) files.push_back(std::move(file));
  return files;
}

}  // namespace fsdp
