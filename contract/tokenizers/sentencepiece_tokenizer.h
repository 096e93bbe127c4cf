#pragma once

#include <filesystem>
#include <memory>

#include "contract/tokenizers/tokenizer.h"

namespace fsdp {

// The SentencePiece model `file`. Throws ConfigError (place: the file).
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file);

}  // namespace fsdp
