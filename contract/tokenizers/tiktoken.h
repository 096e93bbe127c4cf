#pragma once

#include <filesystem>
#include <string_view>

#include "contract/tokenizers/bpe_tokenizer.h"

namespace fsdp {

// Whether a file that begins so is of tiktoken's kind: a piece in base64 and its rank a line.
bool looks_like_tiktoken(std::string_view text);

// Reads it as Llama 3 does, whose split pattern and 256 special tokens it gets, for such a file
// names neither. Throws ConfigError (place: the file).
BpeParts read_tiktoken(const std::filesystem::path& file, std::string_view text);

}  // namespace fsdp
