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
// - The place of each document among the tokens, 8 bytes each, then the number of all tokens.
// Checksums are digests (XXH3 of 128 bits).
namespace fsdp {

inline constexpr uint64_t kPreparedVersion = 3;

struct PreparedHeader {
  char magic[8] = {'F', 'S', 'D', 'P', 'T', 'O', 'K', 'S'};
  uint64_t version = kPreparedVersion;
  uint64_t documents = 0;
  uint64_t tokens = 0;
  uint64_t trained_tokens = 0;
  uint64_t longest_tokens = 0;  // of a document
  uint64_t largest_token = 0;
  uint64_t padding_id = 0;
  uint64_t untrained_documents = 0;  // without a token that is trained on
  char turns[512] = {};              // of chats: how many of each role, as TurnCounts::text()
  char name[16] = {};                // of the file, without its extension
  char contents_checksum[32] = {};   // of what stands behind the header
  char checksum[32] = {};            // of what stands before it
};
static_assert(sizeof(PreparedHeader) == 664);

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
  // Throws ConfigError unless all tokens, and the one that fills up sequences, are below
  // `vocab_size`.
  void check_vocabulary(int64_t vocab_size) const;
  // The number of documents with more than `tokens` tokens.
  int64_t longer_than(int64_t tokens) const;
  // The loss if each document is cut behind its first `tokens` tokens.
  struct Cut {
    int64_t trained_tokens_lost = 0;
    int64_t untrained_documents = 0;
  };
  Cut cut_behind(int64_t tokens) const;
  std::string turns() const;

 private:
  [[noreturn]] void refuse(const std::string& problem) const;
  void read_header();
  void read_contents();

  // Shared, because prepared files are moved.
  std::shared_ptr<const InputFile> file_;
  PreparedHeader header_;
  std::vector<uint64_t> offsets_;
};

// True if a PreparedWriter writes `file`, or was killed before it was finished.
bool is_unfinished(const std::filesystem::path& file);

// Writes a prepared file, one document after the other. Keeps 8 bytes of memory a document, as
// readers do. Until finish(), it writes to another file, which is removed if finish() is not
// called. Only one process at a time may write a file of this name.
class PreparedWriter {
 public:
  // Throws std::system_error if the file cannot be written, as do the other functions.
  PreparedWriter(const std::filesystem::path& path, int64_t padding_id);

  void add(const Document& document);
  void set_turns(const std::string& text);
  // Syncs the file to disk and moves it into its place.
  void finish();

 private:
  void append_contents(std::span<const std::byte> bytes);

  NewFile file_;
  std::vector<uint64_t> offsets_;
  PreparedHeader header_;
  Digest contents_;
};

}  // namespace fsdp
