#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "contract/data/document.h"
#include "contract/spec/data_spec.h"

namespace fsdp {

// Documents of sequence_length + 1 tokens, all trained on, out of a file of token ids:
// - .npy: the rows of an array (see npy.h).
// - .bin: tokens one after the other, as nanoGPT and LitGPT write them, of `dtype`. If that is
//   absent: uint16, or uint32 where `vocab_size` is above 65,536. Document i begins with token i *
//   sequence_length, so that the last token of each is the first of the next, and each is a label
//   once.
// Throws ConfigError (place: the file) when it is no such file, its rows have another length, or it
// holds a token that is not below `vocab_size`, also one that came into it later. If `dtype` is
// absent, also when the tokens seem to be of another width.
std::unique_ptr<DocumentFile> open_token_file(const std::filesystem::path& file,
                                              int64_t sequence_length, int64_t vocab_size,
                                              const std::optional<TokenDtype>& dtype = {});

}  // namespace fsdp
