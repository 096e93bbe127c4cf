#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "contract/data/document.h"
#include "contract/files/input_file.h"

// A prepared file: the documents of a data file as tokens. Its layout, little-endian:
// PreparedHeader; the tokens of all documents one after the other, 4 bytes each, the flag
// kTrainedOn in the top bit; then where each document begins among them, 8 bytes each, and the
// number of all tokens.
namespace fsdp {

inline constexpr uint64_t kPreparedVersion = 1;

struct PreparedHeader {
  char magic[8] = {'F', 'S', 'D', 'P', 'T', 'O', 'K', 'S'};
  uint64_t version = kPreparedVersion;
  uint64_t documents = 0;
  uint64_t tokens = 0;
  uint64_t trained_tokens = 0;
  uint64_t longest_tokens = 0;  // of a document
  uint64_t largest_token = 0;
  uint64_t padding_id = 0;
  char checksum[32] = {};  // of what stands before it
};
static_assert(sizeof(PreparedHeader) == 96);

class PreparedFile : public DocumentFile {
 public:
  // Throws ConfigError (place: the file) when it is damaged, cut short, or none.
  explicit PreparedFile(const std::filesystem::path& path);

  int64_t count() const override { return static_cast<int64_t>(header_.documents); }
  int64_t length(int64_t document) const override;
  using DocumentFile::read;
  void read(int64_t document, int64_t begin, int64_t count, Document& out) const override;
  int64_t padding_id() const override { return static_cast<int64_t>(header_.padding_id); }

  const PreparedHeader& header() const { return header_; }
  // How many documents have more than `tokens` tokens.
  int64_t longer_than(int64_t tokens) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  PreparedHeader header_;
  const uint64_t* offsets_ = nullptr;
  const uint32_t* tokens_ = nullptr;
};

// Writes a prepared file, documents one after the other, with flat memory. What is written is
// another file until finish(), and is removed when that is not called.
class PreparedWriter {
 public:
  // Throws std::runtime_error when it cannot be written, as do the others.
  PreparedWriter(const std::filesystem::path& path, int64_t padding_id);
  ~PreparedWriter();
  PreparedWriter(const PreparedWriter&) = delete;
  PreparedWriter& operator=(const PreparedWriter&) = delete;

  void add(const Document& document);
  void finish();

 private:
  void write(std::ofstream& file, const void* data, size_t bytes);

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::filesystem::path offsets_path_;
  std::ofstream tokens_file_;
  std::ofstream offsets_file_;
  PreparedHeader header_;
};

}  // namespace fsdp
