// Finds tensors in torch.save's zip archive, without reading their bytes.
#include "formats/weights/torch_file.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace fsdp {
namespace {

using namespace std::string_view_literals;
using std::filesystem::path;
using File = std::shared_ptr<const InputFile>;
using Members = std::map<std::string, ZipMember>;

constexpr uint64_t kLongestByteOrder = 16;
// The largest pickle that is read. A pickle of 50,000 tensors has half this size.
constexpr size_t kLargestPickleBytes = 16 << 20;

// The places of a zip archive's fields follow PKWARE's APPNOTE.TXT, 4.3.
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kLocatorBytes = 20;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kHeaderBytes = 46;  // of a member in the directory, before its name
constexpr uint64_t kLocalHeaderBytes = 30;

template <typename T>
T number(std::string_view record, size_t place) {
  T value;
  std::memcpy(&value, record.data() + place, sizeof(T));
  return value;
}

[[noreturn]] void refuse_damaged(const InputFile& archive) {
  refuse_file(archive.path(), "is a zip archive whose list of members is damaged");
}

bool is_inside(const InputFile& archive, uint64_t offset, uint64_t count) {
  return offset <= archive.size_bytes() && count <= archive.size_bytes() - offset;
}

std::string read_text(const InputFile& archive, uint64_t offset, uint64_t count) {
  if (!is_inside(archive, offset, count)) refuse_damaged(archive);
  return archive.read_text(offset, count);
}

std::string read_record(const InputFile& archive, uint64_t offset, uint64_t count,
                        std::string_view signature) {
  std::string record = read_text(archive, offset, count);
  if (!record.starts_with(signature)) refuse_damaged(archive);
  return record;
}

struct Directory {
  uint64_t count = 0;
  uint64_t offset = 0;
};

Directory find_directory(const InputFile& archive) {
  constexpr uint64_t kLongestComment = 65'535;
  const uint64_t size = std::min(archive.size_bytes(), kLongestComment + kEndBytes + kLocatorBytes);
  const std::string tail = read_text(archive, archive.size_bytes() - size, size);
  // The end record is searched from behind: a comment of any length may follow it.
  for (size_t end = tail.size(); (end = tail.rfind("PK\x05\x06", end)) != std::string::npos;) {
    const size_t rest = tail.size() - end;
    if (rest >= kEndBytes && number<uint16_t>(tail, end + 20) == rest - kEndBytes) {
      const bool is_zip64 =
          end >= kLocatorBytes && tail.compare(end - kLocatorBytes, 4, "PK\x06\x07") == 0;
      // Archives above 4 GiB have a second end record, with wide numbers.
      if (!is_zip64) return {number<uint16_t>(tail, end + 10), number<uint32_t>(tail, end + 16)};
      const std::string end64 = read_record(
          archive, number<uint64_t>(tail, end - kLocatorBytes + 8), kEnd64Bytes, "PK\x06\x06"sv);
      return {number<uint64_t>(end64, 32), number<uint64_t>(end64, 48)};
    }
    if (end-- == 0) break;
  }
  refuse_file(archive.path(), "is no zip archive, or is cut short: copy or download it again");
}

// Replaces each number that does not fit into 32 bits by its value in the zip64 field of `extra`.
void read_zip64(const InputFile& archive, std::string_view extra,
                std::initializer_list<uint64_t*> values) {
  constexpr uint16_t kZip64 = 1;
  constexpr size_t kFieldHeaderBytes = 4;
  while (extra.size() >= kFieldHeaderBytes) {
    const auto kind = number<uint16_t>(extra, 0);
    const auto size = number<uint16_t>(extra, 2);
    extra.remove_prefix(kFieldHeaderBytes);
    if (size > extra.size()) refuse_damaged(archive);
    std::string_view field = extra.substr(0, size);
    extra.remove_prefix(size);
    if (kind != kZip64) continue;
    for (uint64_t* const value : values) {
      if (*value != 0xffff'ffff) continue;
      if (field.size() < sizeof(uint64_t)) refuse_damaged(archive);
      *value = number<uint64_t>(field, 0);
      field.remove_prefix(sizeof(uint64_t));
    }
  }
}

// Reads the member at `position` of the directory. Moves `position` to the next one.
std::pair<std::string, ZipMember> read_member(const InputFile& archive, uint64_t& position) {
  const std::string header = read_record(archive, position, kHeaderBytes, "PK\x01\x02"sv);
  const uint64_t name_bytes = number<uint16_t>(header, 28);
  const uint64_t extra_bytes = number<uint16_t>(header, 30);
  const uint64_t comment_bytes = number<uint16_t>(header, 32);
  const std::string rest =
      read_text(archive, position + kHeaderBytes, name_bytes + extra_bytes + comment_bytes);
  position += kHeaderBytes + rest.size();
  const std::string name = rest.substr(0, name_bytes);
  uint64_t stored_bytes = number<uint32_t>(header, 20);
  uint64_t bytes = number<uint32_t>(header, 24);
  uint64_t offset = number<uint32_t>(header, 42);
  read_zip64(archive, std::string_view(rest).substr(name_bytes, extra_bytes),
             {&bytes, &stored_bytes, &offset});
  const auto refuse = [&](const std::string& problem) {
    refuse_file(archive.path(), "member '" + name + "' " + problem);
  };
  constexpr uint16_t kEncrypted = 1;
  if ((number<uint16_t>(header, 8) & kEncrypted) != 0) refuse("is encrypted");
  if (number<uint16_t>(header, 10) != 0 || stored_bytes != bytes) {
    refuse("is compressed; torch.save stores bytes as they are");
  }
  // The member's own header may have other lengths of name and extra than the directory.
  const std::string local = is_inside(archive, offset, kLocalHeaderBytes)
                                ? read_text(archive, offset, kLocalHeaderBytes)
                                : "";
  uint64_t begin = 0;
  if (local.starts_with("PK\x03\x04")) {
    begin = offset + kLocalHeaderBytes + number<uint16_t>(local, 26) + number<uint16_t>(local, 28);
  }
  if (begin == 0 || !is_inside(archive, begin, bytes)) {
    refuse("is not where the archive says; the file is damaged or cut short");
  }
  return {name, {.offset = begin, .size_bytes = bytes, .crc32 = number<uint32_t>(header, 16)}};
}

// The folder in the archive that contains everything, such as "archive/".
std::string folder_of(const path& file, const Members& members) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const auto& [name, member] : members) {
    if (name.ends_with(kPickle) && name.find('/') == name.size() - kPickle.size()) {
      return name.substr(0, name.find('/') + 1);
    }
  }
  refuse_file(file, "is a zip archive without data.pkl; torch.save did not write it");
}

StoredTensor locate(const File& file, const std::string& name, PickledTensor pickled,
                    const std::string& folder, const Members& members) {
  const std::string member = folder + "data/" + std::string(pickled.storage);
  const auto found = members.find(member);
  const uint64_t size = *item_bytes(pickled.dtype);
  // A storage of another size than the pickle says would shift every tensor in it.
  if (found == members.end() || found->second.size_bytes % size != 0 ||
      found->second.size_bytes / size != pickled.storage_items) {
    refuse_file(file->path(),
                "tensor '" + name + "' needs " + std::to_string(pickled.storage_items) +
                    " elements of " + std::to_string(size) + " bytes in '" + member + "', " +
                    (found == members.end()
                         ? "which is missing"
                         : "which has " + std::to_string(found->second.size_bytes) + " bytes") +
                    "; the file is damaged");
  }
  StoredTensor tensor;
  tensor.dtype = std::string(pickled.dtype);
  tensor.shape = std::move(pickled.shape);
  tensor.file = file;
  tensor.offset = found->second.offset + pickled.first_item * size;
  tensor.size_bytes = *tensor_bytes(tensor.shape, size);
  return tensor;
}

void refuse_old_format(const InputFile& file) {
  constexpr std::string_view kBeginOfPickle = "\x80\x02";
  if (file.read_text(0, kBeginOfPickle.size()) != kBeginOfPickle) return;
  refuse_file(file.path(),
              "is in the format that torch.save had before PyTorch 1.6, which is not read; load "
              "it in Python and save it again, best with transformers' save_pretrained, which "
              "writes safetensors");
}

}  // namespace

std::map<std::string, ZipMember> read_zip(const InputFile& archive) {
  const Directory directory = find_directory(archive);
  std::map<std::string, ZipMember> members;
  uint64_t position = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) {
    const auto [name, member] = read_member(archive, position);
    if (!members.emplace(name, member).second) {
      refuse_file(archive.path(), "member '" + name + "' is there twice; the file is damaged");
    }
  }
  return members;
}

std::optional<std::string> read_undamaged(const InputFile& archive, const ZipMember& member) {
  std::string bytes = read_text(archive, member.offset, member.size_bytes);
  const auto* begin = reinterpret_cast<const Bytef*>(bytes.data());
  if (crc32_z(0, begin, bytes.size()) != member.crc32) return std::nullopt;
  return bytes;
}

StoredTensors read_torch(const File& file) {
  refuse_old_format(*file);
  const Members members = read_zip(*file);
  const std::string folder = folder_of(file->path(), members);
  const auto order = members.find(folder + "byteorder");
  if (order != members.end() &&
      file->read_text(order->second.offset,
                      std::min(order->second.size_bytes, kLongestByteOrder)) != "little") {
    refuse_file(file->path(),
                "was written on a machine of the other byte order; save it again on this one");
  }
  const ZipMember& member = members.at(folder + "data.pkl");
  if (member.size_bytes > kLargestPickleBytes) {
    refuse_file(file->path(), "has a data.pkl of " + std::to_string(member.size_bytes) +
                                  " bytes; allowed: at most " +
                                  std::to_string(kLargestPickleBytes));
  }
  // Only the pickle's checksum is compared. The tensors' checksums would need the whole file.
  const std::optional<std::string> pickle = read_undamaged(*file, member);
  if (!pickle) {
    refuse_file(file->path(),
                "has a data.pkl that is not what was written; copy or download it again");
  }
  StoredTensors tensors;
  auto pickled = read_pickled_tensors(file->path(), *pickle);
  while (!pickled.empty()) {  // each tensor is in one of the two maps only, to save memory
    auto next = pickled.extract(pickled.begin());
    StoredTensor tensor = locate(file, next.key(), std::move(next.mapped()), folder, members);
    tensors.emplace_hint(tensors.end(), std::move(next.key()), std::move(tensor));
  }
  return tensors;
}

}  // namespace fsdp
