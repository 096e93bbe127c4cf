#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace fsdp
