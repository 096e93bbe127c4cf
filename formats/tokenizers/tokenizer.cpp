#include "formats/tokenizers/tokenizer.h"

#include "base/files/input_file.h"
#include "formats/tokenizers/bpe_tokenizer.h"

namespace fsdp {
namespace {

using std::filesystem::path;

bool is_folder(const path& place) {
  std::error_code error;
  return std::filesystem::is_directory(place, error);
}

std::unique_ptr<Tokenizer> open_file(const path& file, const FolderSettings& settings) {
  const std::string text = read_input_file(file);
  const bool is_json = file.extension() == ".json";
  if (is_json || looks_like_tiktoken(text)) {
    return std::make_unique<BpeTokenizer>(
        is_json ? read_tokenizer_json(file, text) : read_tiktoken(file, text), settings);
  }
  return open_sentencepiece(file, text, settings);
}

}  // namespace

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
