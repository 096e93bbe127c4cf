#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "contract/spec/data_spec.h"
#include "formats/data/document.h"

namespace fsdp {

// Opens a file of token ids as documents of sequence_length + 1 tokens, all trained on:
// - .npy: each row of a two-dimensional array of int32 or int64 in C order is a document (NEP 1,
//   versions 1-3).
// - .bin: tokens of type `dtype` one after the other, as nanoGPT and LitGPT write them. Without
//   `dtype` they are uint16, or uint32 if `vocab_size` is above 65,536. Document i begins with
//   token i * sequence_length. Its last token is the first of the next, so each token is a label
//   once.
// Throws ConfigError (place: the file) if the file has another format or its rows another length.
// Also throws if a token is not below `vocab_size`, even if it was written after the file was
// opened. Without `dtype`, also throws if the tokens seem to have another width.
std::unique_ptr<DocumentFile> open_token_file(const std::filesystem::path& file,
                                              int64_t sequence_length, int64_t vocab_size,
                                              const std::optional<TokenDtype>& dtype = {});

}  // namespace fsdp
