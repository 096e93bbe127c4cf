#include "contract/inputs/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

namespace fsdp {
namespace {

static_assert(std::endian::native == std::endian::little);

using Entries = std::map<std::string, SafetensorsEntry>;
using nlohmann::json;
using std::filesystem::path;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxJsonBytes = 100'000'000;  // the format's own limit, for the index too
constexpr std::string_view kFileName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";

struct Dtype {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array kDtypes{
    Dtype{"F32", 4}, Dtype{"BF16", 2}, Dtype{"F16", 2},     Dtype{"F64", 8},     Dtype{"I64", 8},
    Dtype{"I32", 4}, Dtype{"I16", 2},  Dtype{"I8", 1},      Dtype{"U64", 8},     Dtype{"U32", 4},
    Dtype{"U16", 2}, Dtype{"U8", 1},   Dtype{"F8_E4M3", 1}, Dtype{"F8_E5M2", 1}, Dtype{"BOOL", 1}};

std::optional<uint64_t> item_bytes(std::string_view dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &Dtype::name);
  if (found == kDtypes.end()) return std::nullopt;
  return found->bytes;
}

// The tensor's size in bytes; nullopt when it overflows.
std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, uint64_t item_bytes) {
  uint64_t bytes = item_bytes;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

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
SafetensorsEntry read_entry(const path& file, const std::string& name, const json& value,
                            std::span<const std::byte> data) {
  const auto refuse = [&](const std::string& problem) {
    refuse_file(file, "tensor '" + name + "' " + problem);
  };
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    refuse("is not described by dtype, shape and data_offsets; the header is damaged");
  }
  SafetensorsEntry entry;
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
void check_layout(const path& file, const Entries& entries, std::span<const std::byte> data) {
  std::vector<std::pair<const std::byte*, const Entries::value_type*>> by_begin;
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

// The index: for each tensor its shard's file name.
std::map<std::string, std::string> read_index(const path& index) {
  const json object = parse_json_object(index, map_input_file(index)->text(), kMaxJsonBytes);
  const auto weight_map = object.find("weight_map");
  if (weight_map == object.end() || !weight_map->is_object()) {
    refuse_file(index, "has no 'weight_map' of tensor names to files");
  }
  std::map<std::string, std::string> shard_of;
  for (const auto& [name, value] : weight_map->items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (shard.empty() || shard.find('/') != std::string::npos) {
      refuse_file(index, "tensor '" + name + "' has the shard " + value.dump() +
                             "; allowed: the name of a file in the same folder");
    }
    shard_of.emplace(name, shard);
  }
  return shard_of;
}

}  // namespace

SafetensorsFile read_safetensors_file(const path& file) {
  const auto mapped = map_input_file(file);
  const auto bytes = mapped->bytes();
  if (bytes.size() < kLengthBytes) {
    refuse_file(file, "is no safetensors file: it holds " + std::to_string(bytes.size()) +
                          " bytes, its header's length alone takes 8");
  }
  uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > kMaxJsonBytes || header_bytes > bytes.size() - kLengthBytes) {
    refuse_file(file, "announces a header of " + std::to_string(header_bytes) +
                          " bytes, but holds " + std::to_string(bytes.size()) +
                          " in all; it is cut short, or no safetensors file");
  }
  const json header =
      parse_json_object(file, mapped->text().substr(kLengthBytes, header_bytes), kMaxJsonBytes);
  const auto data = bytes.subspan(kLengthBytes + header_bytes);
  SafetensorsFile contents;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      contents.metadata = read_metadata(file, value);
      continue;
    }
    SafetensorsEntry entry = read_entry(file, name, value, data);
    entry.file = mapped;
    contents.tensors.emplace(name, std::move(entry));
  }
  check_layout(file, contents.tensors, data);
  return contents;
}

std::vector<path> safetensors_files(const path& folder) {
  if (const path file = folder / kFileName; input_exists(file)) return {file};
  const path index = folder / kIndexName;
  if (!input_exists(index)) {
    refuse_file(folder, "holds neither " + std::string(kFileName) + " nor " +
                            std::string(kIndexName) +
                            "; write the model with transformers' save_pretrained");
  }
  std::set<path> shards;
  for (const auto& [name, shard] : read_index(index)) shards.insert(folder / shard);
  std::vector<path> files{index};
  files.insert(files.end(), shards.begin(), shards.end());
  return files;
}

Entries read_safetensors(const path& folder) {
  const std::vector<path> files = safetensors_files(folder);
  if (files.front().filename() == kFileName) return read_safetensors_file(files.front()).tensors;
  const path& index = files.front();
  std::map<std::string, Entries> shards;
  Entries entries;
  for (const auto& [name, shard] : read_index(index)) {
    const auto read = shards.find(shard);
    Entries& tensors =
        read != shards.end()
            ? read->second
            : shards.emplace(shard, read_safetensors_file(folder / shard).tensors).first->second;
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      refuse_file(index, "names tensor '" + name + "' in " + shard + ", which does not hold it");
    }
    entries.emplace(name, found->second);
  }
  return entries;
}

}  // namespace fsdp
