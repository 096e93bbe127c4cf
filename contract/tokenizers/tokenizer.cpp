#include "contract/tokenizers/tokenizer.h"

#include "contract/files/input_file.h"
#include "contract/tokenizers/sentencepiece_tokenizer.h"

namespace fsdp {
namespace {

using std::filesystem::path;

path tokenizer_file_of(const path& place) {
  std::error_code error;
  if (!std::filesystem::is_directory(place, error)) return place;
  for (const char* const name : {"tokenizer.model", "spiece.model"}) {
    if (input_exists(place / name)) return place / name;
  }
  refuse_file(place, "has no tokenizer; needed: tokenizer.model or spiece.model");
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const path& place) {
  return open_sentencepiece(tokenizer_file_of(place));
}

std::vector<path> tokenizer_files(const path& place) { return {tokenizer_file_of(place)}; }

}  // namespace fsdp
