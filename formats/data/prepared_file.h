#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/files/digest.h"
#include "base/files/input_file.h"
#include "base/files/new_file.h"
#include "formats/data/document.h"

// A prepared file: the documents of a data file as tokens. Its layout, little-endian:
// - PreparedHeader.
// - The tokens of all documents, 4 bytes each, with the flag kTrainedOn in the top bit. Zeros fill
//   them up to a multiple of 8 bytes.
// - The index of each document's first token, 8 bytes each, then the number of all tokens.
// Checksums are digests (XXH3 of 128 bits).
namespace fsdp {

inline constexpr uint64_t kPreparedVersion = 5;

struct PreparedHeader {
  char magic[8] = {'F', 'S', 'D', 'P', 'T', 'O', 'K', 'S'};
  uint64_t version = kPreparedVersion;
  uint64_t documents = 0;
  uint64_t tokens = 0;
  uint64_t trained_tokens = 0;
  uint64_t longest_tokens = 0;  // of the longest document
  uint64_t largest_token = 0;
  uint64_t padding_id = 0;
  uint64_t untrained_documents = 0;  // without a token that is trained on
  char counts[1536] = {};            // RecordCounts::text()
  char name[16] = {};                // of the file, without its extension
  char contents_checksum[32] = {};   // of all bytes after the header
  char checksum[32] = {};            // of the header's bytes before this member
};
static_assert(sizeof(PreparedHeader) == 1688);

class PreparedFile : public DocumentFile {
 public:
  // Reads the whole file once. Throws ConfigError (place: the file) if it is no prepared file,
  // damaged, cut short or made under another name.
  explicit PreparedFile(const std::filesystem::path& path);

  int64_t count() const override { return static_cast<int64_t>(header_.documents); }
  int64_t length(int64_t document) const override;
  using DocumentFile::read;
  void read(int64_t document, int64_t begin, int64_t count, Document& out) const override;
  int64_t padding_id() const override { return static_cast<int64_t>(header_.padding_id); }

  const PreparedHeader& header() const { return header_; }
  // Throws ConfigError unless all tokens and the padding token are below `vocab_size`.
  void check_vocabulary(int64_t vocab_size) const;
  // The number of documents with more than `tokens` tokens.
  int64_t longer_than(int64_t tokens) const;
  // The effect of cutting each document after its first `tokens` tokens.
  struct Cut {
    int64_t trained_tokens_lost = 0;
    int64_t untrained_documents = 0;  // after the cut: without a token that is trained on
  };
  Cut cut_behind(int64_t tokens) const;
  std::string counts() const;

 private:
  [[noreturn]] void refuse(const std::string& problem) const;
  void read_header();
  void read_contents();

  // Shared, because a PreparedFile can be moved and an InputFile cannot.
  std::shared_ptr<const InputFile> file_;
  PreparedHeader header_;
  std::vector<uint64_t> offsets_;
};

// True if `file` is the temporary file of a PreparedWriter that is at work or was killed.
bool is_unfinished(const std::filesystem::path& file);

// Writes a prepared file, one document after the other. Keeps 8 bytes of memory for each document,
// as PreparedFile does. Writes to a temporary file, which finish() moves into place. If finish() is
// not called, the destructor removes it. Only one process at a time may write a file of this name.
class PreparedWriter {
 public:
  // Throws std::system_error if the file cannot be written, as do the other functions.
  PreparedWriter(const std::filesystem::path& path, int64_t padding_id);

  void add(const Document& document);
  void set_counts(const std::string& text);
  // Syncs the file to disk and moves it into place.
  void finish();

 private:
  void append_contents(std::span<const std::byte> bytes);

  NewFile file_;
  std::vector<uint64_t> offsets_;
  PreparedHeader header_;
  Digest contents_;
};

}  // namespace fsdp
