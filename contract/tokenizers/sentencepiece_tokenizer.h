#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "contract/tokenizers/hugging_face_folder.h"
#include "contract/tokenizers/tokenizer.h"

namespace fsdp {

// Opens the SentencePiece model in `contents`. Adds T5's sentinels if the settings or the file's
// name, spiece.model, say that it is T5's. Throws ConfigError (place: the file).
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& file,
                                              std::string_view contents,
                                              const FolderSettings& settings);

}  // namespace fsdp
