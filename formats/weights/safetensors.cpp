// Reads the header of safetensors. Tensors must fill the file without overlap.
#include "formats/weights/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text/foreign_json.h"

namespace fsdp {
namespace {

using nlohmann::json;
using namespace std::string_view_literals;
using std::filesystem::path;

static_assert(std::endian::native == std::endian::little);

constexpr std::array kItemBytes{
    std::pair{"F32"sv, 4},  std::pair{"BF16"sv, 2},    std::pair{"F16"sv, 2},
    std::pair{"F64"sv, 8},  std::pair{"I64"sv, 8},     std::pair{"I32"sv, 4},
    std::pair{"I16"sv, 2},  std::pair{"I8"sv, 1},      std::pair{"U64"sv, 8},
    std::pair{"U32"sv, 4},  std::pair{"U16"sv, 2},     std::pair{"U8"sv, 1},
    std::pair{"BOOL"sv, 1}, std::pair{"F8_E4M3"sv, 1}, std::pair{"F8_E5M2"sv, 1}};
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeaderBytes = 100'000'000;  // the format's own limit

std::optional<std::vector<int64_t>> read_sizes(const json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<int64_t> sizes;
  for (const json& item : value) {
    if (!item.is_number_unsigned()) return std::nullopt;
    const auto size = item.get<uint64_t>();
    if (size > std::numeric_limits<int64_t>::max()) return std::nullopt;
    sizes.push_back(static_cast<int64_t>(size));
  }
  return sizes;
}

// Refuses a header with an object that has a name twice, because nlohmann::json keeps only one of
// the two values.
void check_names(const path& file, const std::string& text) {
  simdjson::dom::parser parser;
  simdjson::dom::object header;
  if (parser.parse(text).get(header) != simdjson::SUCCESS) {
    refuse_file(file, "has a header that is not JSON of numbers within 64 bits");
  }
  const auto check = [&](const simdjson::dom::object& object) {
    if (const auto name = repeated_key(object)) {
      refuse_file(file, "has '" + *name + "' twice in one object of its header");
    }
  };
  check(header);
  for (const auto& [name, value] : header) {
    if (value.is_object()) check(value.get_object());
  }
}

using File = std::shared_ptr<const InputFile>;

// One tensor's description in the header of `file`, whose tensors' bytes begin at `data_offset`.
StoredTensor read_entry(const File& file, const std::string& name, const json& value,
                        uint64_t data_offset) {
  const uint64_t data_bytes = file->size_bytes() - data_offset;
  const auto refuse = [&](const std::string& problem) {
    refuse_file(file->path(), "tensor '" + name + "' " + problem);
  };
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    refuse("is not described by dtype, shape and data_offsets; the header is damaged");
  }
  StoredTensor entry;
  entry.dtype = value["dtype"].get<std::string>();
  const auto bytes_per_item = item_bytes(entry.dtype);
  if (!bytes_per_item) refuse("has the unknown dtype '" + entry.dtype + "'");
  const auto shape = read_sizes(value["shape"]);
  if (!shape) refuse("has a shape that is not a list of sizes: " + value["shape"].dump());
  entry.shape = *shape;
  const auto offsets = read_sizes(value["data_offsets"]);
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    refuse("has data_offsets that are not a begin and an end: " + value["data_offsets"].dump());
  }
  const auto begin = static_cast<uint64_t>((*offsets)[0]);
  const auto end = static_cast<uint64_t>((*offsets)[1]);
  if (end > data_bytes) {
    refuse("ends at byte " + std::to_string(end) + " of the data, but the file holds only " +
           std::to_string(data_bytes) + "; it is cut short: copy or download it again");
  }
  if (tensor_bytes(entry.shape, *bytes_per_item) != end - begin) {
    refuse("of dtype " + entry.dtype + " and shape " + value["shape"].dump() +
           " does not fill its " + std::to_string(end - begin) + " bytes");
  }
  entry.file = file;
  entry.offset = data_offset + begin;
  entry.size_bytes = end - begin;
  return entry;
}

// Checks that tensors are side by side, as the format requires: no overlap, no hole, no rest.
void check_layout(const InputFile& file, const StoredTensors& entries, uint64_t data_offset) {
  std::vector<const StoredTensors::value_type*> by_begin;
  for (const auto& entry : entries) by_begin.push_back(&entry);
  std::ranges::sort(by_begin, {}, [](const auto* entry) {
    // Empty tensors stand before the tensor at the same place.
    return std::pair(entry->second.offset, entry->second.size_bytes);
  });
  uint64_t end = data_offset;
  for (const auto* entry : by_begin) {
    const auto& [name, tensor] = *entry;
    if (tensor.offset != end) {
      refuse_file(file.path(), "tensor '" + name + "' " +
                                   (tensor.offset < end ? "overlaps the tensor" : "leaves a hole") +
                                   " before it; the header is damaged");
    }
    end = tensor.offset + tensor.size_bytes;
  }
  if (const uint64_t rest = file.size_bytes() - end; rest != 0) {
    refuse_file(file.path(), "holds " + std::to_string(rest) + " bytes that belong to no tensor");
  }
}

std::map<std::string, std::string> read_metadata(const path& file, const json& value) {
  std::map<std::string, std::string> metadata;
  if (value.is_null()) return metadata;
  if (!value.is_object()) refuse_file(file, "has a __metadata__ that is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) refuse_file(file, "has metadata '" + key + "' that is not text");
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

}  // namespace

std::optional<uint64_t> item_bytes(std::string_view dtype) {
  for (const auto& [name, bytes] : kItemBytes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, uint64_t item_bytes) {
  // An empty tensor may have other sizes whose product overflows.
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  uint64_t bytes = item_bytes;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

SafetensorsFile read_safetensors(const std::shared_ptr<const InputFile>& file) {
  const uint64_t size = file->size_bytes();
  if (size < kLengthBytes) {
    refuse_file(file->path(), "is no safetensors file: it holds " + std::to_string(size) +
                                  " bytes, its header's length alone takes 8");
  }
  uint64_t header_bytes = 0;
  file->read(0, std::as_writable_bytes(std::span(&header_bytes, 1)));
  if (header_bytes > kLargestHeaderBytes || header_bytes > size - kLengthBytes) {
    refuse_file(file->path(), "announces a header of " + std::to_string(header_bytes) +
                                  " bytes, but holds " + std::to_string(size) +
                                  " in all; it is cut short, or no safetensors file");
  }
  const std::string text = file->read_text(kLengthBytes, header_bytes);
  const json header = parse_json_object(file->path(), text, kLargestHeaderBytes);
  check_names(file->path(), text);
  const uint64_t data_offset = kLengthBytes + header_bytes;
  SafetensorsFile contents;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      contents.metadata = read_metadata(file->path(), value);
      continue;
    }
    contents.tensors.emplace(name, read_entry(file, name, value, data_offset));
  }
  check_layout(*file, contents.tensors, data_offset);
  return contents;
}

}  // namespace fsdp
