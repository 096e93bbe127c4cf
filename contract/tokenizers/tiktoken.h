#pragma once

#include <filesystem>
#include <string_view>

#include "contract/tokenizers/bpe_tokenizer.h"

namespace fsdp {

// True if the text begins like a tiktoken file: each line has a piece in base64 and its rank.
bool looks_like_tiktoken(std::string_view text);

// Reads a tiktoken file as Llama 3 does. Such a file names neither split pattern nor special
// tokens. It gets Llama 3's pattern and 256 special tokens. Throws ConfigError (place: the file).
BpeParts read_tiktoken(const std::filesystem::path& file, std::string_view text);

}  // namespace fsdp
