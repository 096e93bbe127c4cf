#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "contract/spec/data_spec.h"

namespace fsdp {

// A list of tokens. A token with the flag kTrainedOn is a label, which the model is trained to
// predict. If the model has an encoder, it reads the leading tokens without the flag. The decoder
// reads the others.
using Document = std::vector<uint32_t>;

inline constexpr uint32_t kTrainedOn = uint32_t{1} << 31;

inline int64_t token_id(uint32_t token) { return token & ~kTrainedOn; }

// A file of documents.
class DocumentFile {
 public:
  virtual ~DocumentFile() = default;

  virtual int64_t count() const = 0;
  virtual int64_t length(int64_t document) const = 0;  // tokens
  // Reads the document's tokens from `begin` on, at most `count`.
  virtual void read(int64_t document, int64_t begin, int64_t count, Document& out) const = 0;
  void read(int64_t document, Document& out) const { read(document, 0, length(document), out); }
  // The token that fills up sequences; it is not trained on.
  virtual int64_t padding_id() const = 0;
};

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
