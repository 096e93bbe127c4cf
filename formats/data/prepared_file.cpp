// Writes and reads prepared files. The contents count only if their checksum is right.
#include "formats/data/prepared_file.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace fsdp {
namespace {

constexpr const char* kUnfinished = ".partial";

std::string checksum_of(const PreparedHeader& header) {
  return text_digest({reinterpret_cast<const char*>(&header), offsetof(PreparedHeader, checksum)});
}

template <typename T>
std::span<const std::byte> bytes_of_value(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// The offsets behind the tokens begin at a multiple of 8 bytes.
uint64_t token_bytes(const PreparedHeader& header) {
  return (header.tokens + header.tokens % 2) * sizeof(uint32_t);
}

uint64_t offset_bytes(const PreparedHeader& header) {
  return (header.documents + 1) * sizeof(uint64_t);
}

}  // namespace

PreparedFile::PreparedFile(const std::filesystem::path& path)
    : file_(std::make_shared<const InputFile>(path)) {
  read_header();
  read_contents();
}

void PreparedFile::refuse(const std::string& problem) const {
  refuse_file(file_->path(), problem + "; remove it, and the next run makes it again");
}

void PreparedFile::read_header() {
  const uint64_t size = file_->size_bytes();
  if (size < sizeof(header_)) refuse("is no prepared file, or is cut short");
  file_->read(0, std::as_writable_bytes(std::span(&header_, 1)));
  if (std::string_view(header_.magic, 8) != std::string_view(PreparedHeader().magic, 8) ||
      header_.version != kPreparedVersion ||
      checksum_of(header_) != std::string_view(header_.checksum, sizeof(header_.checksum))) {
    refuse("is no prepared file of this version, or a damaged one");
  }
  // The first two comparisons keep the sizes below from overflowing.
  if (header_.tokens > size || header_.documents > size ||
      sizeof(header_) + token_bytes(header_) + offset_bytes(header_) != size) {
    refuse("holds " + std::to_string(size) +
           " bytes, not those that its header says; it is cut short or damaged");
  }
  const std::string_view name(header_.name, strnlen(header_.name, sizeof(header_.name)));
  // A renamed or copied file would be taken for other data.
  if (name != file_->path().stem()) {
    refuse("was made as " + std::string(name) + ".tokens, of other data");
  }
}

void PreparedFile::read_contents() {
  Digest contents;
  file_->read_blocks(sizeof(header_), token_bytes(header_),
                     [&](std::span<const std::byte> block) { contents.add(block); });
  offsets_.resize(header_.documents + 1);
  const auto offsets = std::as_writable_bytes(std::span(offsets_));
  file_->read(sizeof(header_) + token_bytes(header_), offsets);
  contents.add(offsets);
  const std::string_view written(header_.contents_checksum, sizeof(header_.contents_checksum));
  if (const std::string found = contents.text(); found != written) {
    refuse("is damaged: its contents changed after it was written (checksum now " + found +
           ", when written " + std::string(written) + ")");
  }
  if (!std::ranges::is_sorted(offsets_) || offsets_.front() != 0 ||
      offsets_.back() != header_.tokens) {
    refuse("is damaged: its documents do not follow each other");
  }
}

int64_t PreparedFile::length(int64_t document) const {
  return static_cast<int64_t>(offsets_[document + 1] - offsets_[document]);
}

void PreparedFile::read(int64_t document, int64_t begin, int64_t count, Document& out) const {
  const int64_t size = length(document);
  const int64_t first = std::min(begin, size);
  out.resize(static_cast<size_t>(std::min(begin + count, size) - first));
  file_->read(sizeof(header_) + (offsets_[document] + first) * sizeof(uint32_t),
              std::as_writable_bytes(std::span(out)));
  const auto is_too_large = [&](uint32_t token) {
    return static_cast<uint64_t>(token_id(token)) > header_.largest_token;
  };
  // The checksum was compared when the file was opened. A later change must not reach the model.
  const auto found = std::ranges::find_if(out, is_too_large);
  if (found == out.end()) return;
  refuse("changed since it was opened: document " + std::to_string(document) + " holds the token " +
         std::to_string(token_id(*found)) + ", above the file's largest, " +
         std::to_string(header_.largest_token));
}

void PreparedFile::check_vocabulary(int64_t vocab_size) const {
  const uint64_t largest = std::max(header_.largest_token, header_.padding_id);
  if (largest < static_cast<uint64_t>(vocab_size)) return;
  refuse("holds the token " + std::to_string(largest) + ", but the model's vocabulary has " +
         std::to_string(vocab_size) + " tokens");
}

int64_t PreparedFile::longer_than(int64_t tokens) const {
  int64_t longer = 0;
  for (int64_t i = 0; i < count(); ++i) longer += length(i) > tokens ? 1 : 0;
  return longer;
}

PreparedFile::Cut PreparedFile::cut_behind(int64_t tokens) const {
  const auto count_trained = [](std::span<const uint32_t> part) {
    return std::ranges::count_if(part, [](uint32_t token) { return (token & kTrainedOn) != 0; });
  };
  Cut cut{.untrained_documents = static_cast<int64_t>(header_.untrained_documents)};
  Document document;
  for (int64_t i = 0; i < count(); ++i) {
    if (length(i) <= tokens) continue;
    read(i, document);
    const int64_t lost = count_trained(std::span(document).subspan(static_cast<size_t>(tokens)));
    cut.trained_tokens_lost += lost;
    if (lost > 0 && lost == count_trained(document)) ++cut.untrained_documents;
  }
  return cut;
}

std::string PreparedFile::counts() const {
  return {header_.counts, strnlen(header_.counts, sizeof(header_.counts))};
}

bool is_unfinished(const std::filesystem::path& file) { return file.extension() == kUnfinished; }

PreparedWriter::PreparedWriter(const std::filesystem::path& path, int64_t padding_id)
    : file_(path, path.string() + kUnfinished) {
  path.stem().string().copy(header_.name, sizeof(header_.name));
  header_.padding_id = static_cast<uint64_t>(padding_id);
  file_.append(bytes_of_value(header_));
}

void PreparedWriter::append_contents(std::span<const std::byte> bytes) {
  file_.append(bytes);
  contents_.add(bytes);
}

void PreparedWriter::add(const Document& document) {
  offsets_.push_back(header_.tokens);
  append_contents(std::as_bytes(std::span(document)));
  ++header_.documents;
  header_.tokens += document.size();
  header_.longest_tokens = std::max<uint64_t>(header_.longest_tokens, document.size());
  const uint64_t trained_before = header_.trained_tokens;
  for (const uint32_t token : document) {
    header_.trained_tokens += (token & kTrainedOn) != 0 ? 1 : 0;
    header_.largest_token = std::max(header_.largest_token, static_cast<uint64_t>(token_id(token)));
  }
  header_.untrained_documents += header_.trained_tokens == trained_before ? 1 : 0;
}

void PreparedWriter::set_counts(const std::string& text) {
  text.copy(header_.counts, sizeof(header_.counts));
}

void PreparedWriter::finish() {
  const uint32_t nothing = 0;
  if (header_.tokens % 2 != 0) append_contents(bytes_of_value(nothing));
  offsets_.push_back(header_.tokens);
  append_contents(std::as_bytes(std::span(offsets_)));
  contents_.text().copy(header_.contents_checksum, sizeof(header_.contents_checksum));
  checksum_of(header_).copy(header_.checksum, sizeof(header_.checksum));
  // The header is written twice, because only the end knows counts and checksums.
  file_.overwrite(0, bytes_of_value(header_));
  file_.publish();
}

}  // namespace fsdp
