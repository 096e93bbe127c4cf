#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fsdp {

// A list of tokens. One with the flag kTrainedOn is a label: what the model is trained to say where
// it stands. Of an encoder and a decoder, the first reads the leading tokens without it, the second
// the rest.
using Document = std::vector<uint32_t>;

inline constexpr uint32_t kTrainedOn = uint32_t{1} << 31;

inline int64_t token_id(uint32_t token) { return token & ~kTrainedOn; }

// A file of documents.
class DocumentFile {
 public:
  virtual ~DocumentFile() = default;

  virtual int64_t count() const = 0;
  virtual int64_t length(int64_t document) const = 0;  // tokens
  // Its tokens from `begin` on, at most `count`.
  virtual void read(int64_t document, int64_t begin, int64_t count, Document& out) const = 0;
  void read(int64_t document, Document& out) const { read(document, 0, length(document), out); }
  // Fills up sequences; nothing is trained on it.
  virtual int64_t padding_id() const = 0;
};

}  // namespace fsdp
