#include "contract/data/prepared_file.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <system_error>

#include "contract/record/digest.h"

namespace fsdp {
namespace {

std::string checksum_of(const PreparedHeader& header) {
  return text_digest({reinterpret_cast<const char*>(&header), offsetof(PreparedHeader, checksum)});
}

}  // namespace

PreparedFile::PreparedFile(const std::filesystem::path& path)
    : path_(path), file_(map_input_file(path)) {
  const auto bytes = file_->bytes();
  if (bytes.size() < sizeof(header_)) refuse_file(path, "is no prepared file, or is cut short");
  std::memcpy(&header_, bytes.data(), sizeof(header_));
  if (std::string_view(header_.magic, 8) != std::string_view(PreparedHeader().magic, 8) ||
      header_.version != kPreparedVersion ||
      checksum_of(header_) != std::string_view(header_.checksum, sizeof(header_.checksum))) {
    refuse_file(path, "is no prepared file of this version, or a damaged one");
  }
  const size_t limit = bytes.size();
  const size_t token_bytes = (header_.tokens + header_.tokens % 2) * sizeof(uint32_t);
  if (header_.tokens > limit || header_.documents > limit ||
      sizeof(header_) + token_bytes + (header_.documents + 1) * sizeof(uint64_t) != limit) {
    refuse_file(path, "holds " + std::to_string(limit) +
                          " bytes, not those that its header says; it is cut short or damaged");
  }
  tokens_ = reinterpret_cast<const uint32_t*>(bytes.data() + sizeof(header_));
  offsets_ = reinterpret_cast<const uint64_t*>(bytes.data() + sizeof(header_) + token_bytes);
  if (!std::is_sorted(offsets_, offsets_ + count() + 1) || offsets_[0] != 0 ||
      offsets_[count()] != header_.tokens) {
    refuse_file(path, "is damaged: its documents do not follow each other");
  }
}

int64_t PreparedFile::length(int64_t document) const {
  return static_cast<int64_t>(offsets_[document + 1] - offsets_[document]);
}

void PreparedFile::read(int64_t document, int64_t begin, int64_t count, Document& out) const {
  const uint32_t* tokens = tokens_ + offsets_[document];
  const int64_t size = length(document);
  out.assign(tokens + std::min(begin, size), tokens + std::min(begin + count, size));
  const auto is_too_large = [&](uint32_t token) {
    return static_cast<uint64_t>(token_id(token)) > header_.largest_token;
  };
  if (std::ranges::any_of(out, is_too_large)) {
    refuse_file(path_,
                "is damaged: it holds a token above its largest; remove it, and the next "
                "run makes it again");
  }
}

int64_t PreparedFile::longer_than(int64_t tokens) const {
  int64_t longer = 0;
  for (int64_t i = 0; i < count(); ++i) longer += length(i) > tokens ? 1 : 0;
  return longer;
}

PreparedWriter::PreparedWriter(const std::filesystem::path& path, int64_t padding_id)
    : path_(path), partial_(path), offsets_path_(path) {
  partial_ += ".partial";
  offsets_path_ += ".offsets";
  tokens_file_.open(partial_, std::ios::binary | std::ios::trunc);
  offsets_file_.open(offsets_path_, std::ios::binary | std::ios::trunc);
  header_.padding_id = static_cast<uint64_t>(padding_id);
  write(tokens_file_, &header_, sizeof(header_));
}

PreparedWriter::~PreparedWriter() {
  std::error_code ignored;
  std::filesystem::remove(offsets_path_, ignored);
  std::filesystem::remove(partial_, ignored);
}

void PreparedWriter::write(std::ofstream& file, const void* data, size_t bytes) {
  errno = 0;
  if (file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes))) return;
  throw std::runtime_error(path_.string() +
                           ": cannot be written: " + std::generic_category().message(errno));
}

void PreparedWriter::add(const Document& document) {
  write(offsets_file_, &header_.tokens, sizeof(header_.tokens));
  write(tokens_file_, document.data(), document.size() * sizeof(uint32_t));
  ++header_.documents;
  header_.tokens += document.size();
  header_.longest_tokens = std::max<uint64_t>(header_.longest_tokens, document.size());
  for (const uint32_t token : document) {
    header_.trained_tokens += (token & kTrainedOn) != 0 ? 1 : 0;
    header_.largest_token = std::max(header_.largest_token, static_cast<uint64_t>(token_id(token)));
  }
}

void PreparedWriter::finish() {
  const uint32_t nothing = 0;
  if (header_.tokens % 2 != 0) write(tokens_file_, &nothing, sizeof(nothing));
  write(offsets_file_, &header_.tokens, sizeof(header_.tokens));
  offsets_file_.flush();
  std::ifstream offsets(offsets_path_, std::ios::binary);
  std::vector<char> block(1 << 20);
  while (offsets.read(block.data(), std::ssize(block)) || offsets.gcount() > 0) {
    write(tokens_file_, block.data(), static_cast<size_t>(offsets.gcount()));
  }
  checksum_of(header_).copy(header_.checksum, sizeof(header_.checksum));
  tokens_file_.seekp(0);
  write(tokens_file_, &header_, sizeof(header_));
  errno = 0;
  tokens_file_.close();
  if (tokens_file_.fail() || offsets_file_.fail()) {
    throw std::runtime_error(path_.string() +
                             ": cannot be written: " + std::generic_category().message(errno));
  }
  std::filesystem::rename(partial_, path_);
}

}  // namespace fsdp
