#pragma once

#include <filesystem>
#include <string_view>

#include "contract/tokenizers/bpe_tokenizer.h"

namespace fsdp {

// Reads the text of a tokenizer.json whose model is BPE. Throws ConfigError (place: the file) if
// the text is damaged, or, with the key, if a part is not supported.
BpeParts read_tokenizer_json(const std::filesystem::path& file, std::string_view text);

}  // namespace fsdp
