#include "contract/inputs/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace fsdp {
namespace {

using nlohmann::json;
using std::filesystem::path;

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

// One tensor's description in the header of `file`, whose tensors' bytes are `data`.
StoredTensor read_entry(const path& file, const std::string& name, const json& value,
                        std::span<const std::byte> data) {
  const auto refuse = [&](const std::string& problem) {
    refuse_file(file, "tensor '" + name + "' " + problem);
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
  if (end > data.size()) {
    refuse("ends at byte " + std::to_string(end) + " of the data, but the file holds only " +
           std::to_string(data.size()) + "; it is cut short: copy or download it again");
  }
  if (tensor_bytes(entry.shape, *bytes_per_item) != end - begin) {
    refuse("of dtype " + entry.dtype + " and shape " + value["shape"].dump() +
           " does not fill its " + std::to_string(end - begin) + " bytes");
  }
  entry.bytes = data.subspan(begin, end - begin);
  return entry;
}

// The format wants tensors side by side: no overlap, no hole, nothing after the last.
void check_layout(const path& file, const StoredTensors& entries, std::span<const std::byte> data) {
  std::vector<std::pair<const std::byte*, const StoredTensors::value_type*>> by_begin;
  for (const auto& entry : entries) by_begin.emplace_back(entry.second.bytes.data(), &entry);
  std::ranges::sort(by_begin, [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->second.bytes.size()) <
           std::pair(b.first, b.second->second.bytes.size());
  });
  const std::byte* end = data.data();
  for (const auto& [begin, entry] : by_begin) {
    if (begin != end) {
      refuse_file(file, "tensor '" + entry->first + "' " +
                            (begin < end ? "overlaps the tensor" : "leaves a hole") +
                            " before it; the header is damaged");
    }
    end = begin + entry->second.bytes.size();
  }
  if (const auto rest = data.data() + data.size() - end; rest != 0) {
    refuse_file(file, "holds " + std::to_string(rest) + " bytes that belong to no tensor");
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

SafetensorsFile read_safetensors_bytes(const path& file, std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    refuse_file(file, "is no safetensors file: it holds " + std::to_string(bytes.size()) +
                          " bytes, its header's length alone takes 8");
  }
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > kLargestHeaderBytes || header_bytes > bytes.size() - kLengthBytes) {
    refuse_file(file, "announces a header of " + std::to_string(header_bytes) +
                          " bytes, but holds " + std::to_string(bytes.size()) +
                          " in all; it is cut short, or no safetensors file");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const json header =
      parse_json_object(file, text.substr(kLengthBytes, header_bytes), kLargestHeaderBytes);
  const auto data = bytes.subspan(kLengthBytes + header_bytes);
  SafetensorsFile contents;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      contents.metadata = read_metadata(file, value);
      continue;
    }
    contents.tensors.emplace(name, read_entry(file, name, value, data));
  }
  check_layout(file, contents.tensors, data);
  return contents;
}

SafetensorsFile read_safetensors_file(const path& file) {
  const auto mapped = map_input_file(file);
  SafetensorsFile contents = read_safetensors_bytes(file, mapped->bytes());
  for (auto& [name, tensor] : contents.tensors) tensor.file = mapped;
  return contents;
}

}  // namespace fsdp
