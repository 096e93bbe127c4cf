#include "contract/data/npy.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace fsdp {
namespace {

using nlohmann::json;
using std::filesystem::path;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 1 << 16;
constexpr size_t kBeforeHeaderBytes = 12;  // at most: the magic, the version, the header's length
constexpr std::string_view kAllowed =
    "; allowed: an array of int32 or int64 [rows, sequence_length + 1], as numpy.save writes it";

// The header is a Python literal such as {'descr': '<i4', 'fortran_order': False, 'shape': (2, 3),
// }
std::string json_from_python_literal(std::string_view literal) {
  std::string text;
  for (size_t i = 0; i < literal.size(); ++i) {
    const char character = literal[i];
    if (literal.substr(i).starts_with("True") || literal.substr(i).starts_with("False")) {
      text += character == 'T' ? "true" : "false";
      i += character == 'T' ? 3 : 4;
    } else if (character == ')' || character == '}' || character == ']') {
      text.erase(text.find_last_not_of(", ") + 1);
      text += character == ')' ? ']' : character;
    } else {
      text += character == '\'' ? '"' : character == '(' ? '[' : character;
    }
  }
  return text;
}

struct Header {
  json fields;
  size_t data_offset;
};

Header read_header(const path& file, std::string_view text) {
  if (!text.starts_with(kMagic) || text.size() < kMagic.size() + 2) {
    refuse_file(file, "is no .npy file" + std::string(kAllowed));
  }
  const int version = static_cast<unsigned char>(text[kMagic.size()]);
  if (version < 1 || version > 3) {
    refuse_file(file, "is .npy version " + std::to_string(version) + "; allowed: 1, 2, 3");
  }
  const size_t length_offset = kMagic.size() + 2;
  const size_t length_bytes = version == 1 ? 2 : 4;
  uint32_t header_bytes = 0;
  if (text.size() >= length_offset + length_bytes) {
    std::memcpy(&header_bytes, text.data() + length_offset, length_bytes);
  }
  const size_t header_offset = length_offset + length_bytes;
  if (header_bytes == 0 || header_bytes > kMaxHeaderBytes ||
      header_offset + header_bytes > text.size() ||
      text.substr(header_offset, header_bytes).find('\0') != text.npos) {
    refuse_file(file, "has a damaged header; it is cut short, or no .npy file");
  }
  const json fields =
      parse_json_object(file, json_from_python_literal(text.substr(header_offset, header_bytes)));
  if (!fields.contains("descr") || !fields.contains("fortran_order") || !fields.contains("shape")) {
    refuse_file(file, "has a header without descr, fortran_order and shape");
  }
  return {fields, header_offset + header_bytes};
}

int read_item_bytes(const path& file, const json& descr) {
  if (descr == "<i4") return 4;
  if (descr == "<i8") return 8;
  const bool big_endian = descr == ">i4" || descr == ">i8";
  refuse_file(file, "has dtype " + descr.dump() + (big_endian ? " (big-endian)" : "") +
                        "; allowed: little-endian int32 ('<i4') and int64 ('<i8')");
}

template <typename Item>
void widen(std::span<const std::byte> items, int64_t* out) {
  for (size_t i = 0; i < items.size() / sizeof(Item); ++i) {
    Item item;
    std::memcpy(&item, items.data() + i * sizeof(Item), sizeof(Item));
    out[i] = item;
  }
}

template <typename Item>
std::pair<int64_t, int64_t> extremes(std::span<const std::byte> items) {
  Item minimum = std::numeric_limits<Item>::max();
  Item maximum = std::numeric_limits<Item>::min();
  for (size_t i = 0; i < items.size() / sizeof(Item); ++i) {
    Item item;
    std::memcpy(&item, items.data() + i * sizeof(Item), sizeof(Item));
    minimum = std::min(minimum, item);
    maximum = std::max(maximum, item);
  }
  return {minimum, maximum};
}

}  // namespace

TokenArray::TokenArray(const std::filesystem::path& path) : file_(path) {
  std::string begin(std::min<uint64_t>(file_.size_bytes(), kMaxHeaderBytes + kBeforeHeaderBytes),
                    0);
  file_.read(0, std::as_writable_bytes(std::span(begin)));
  const auto [fields, data_offset] = read_header(path, begin);
  item_bytes_ = read_item_bytes(path, fields["descr"]);
  if (fields["fortran_order"] != false) {
    refuse_file(path, "is in Fortran order; save numpy.ascontiguousarray(array)");
  }
  const json& shape = fields["shape"];
  const auto is_size = [](const json& value) {
    return value.is_number_unsigned() &&
           value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  };
  if (!shape.is_array() || shape.size() != 2 || !is_size(shape[0]) || !is_size(shape[1])) {
    refuse_file(path, "has shape " + shape.dump() + ", not two dimensions" + std::string(kAllowed));
  }
  uint64_t bytes = item_bytes_;
  const size_t held = file_.size_bytes() - data_offset;
  const bool overflows = __builtin_mul_overflow(bytes, shape[0].get<uint64_t>(), &bytes) ||
                         __builtin_mul_overflow(bytes, shape[1].get<uint64_t>(), &bytes);
  if (overflows || bytes != held) {
    refuse_file(path, "has shape " + shape.dump() + " and dtype " + fields["descr"].dump() +
                          ", which does not fit its " + std::to_string(held) +
                          " bytes of data; it is damaged or cut short");
  }
  rows_ = shape[0].get<int64_t>();
  columns_ = shape[1].get<int64_t>();
  data_offset_ = data_offset;
}

void TokenArray::read_row(int64_t row, int64_t* out) const {
  std::vector<std::byte> items(static_cast<size_t>(columns_ * item_bytes_));
  file_.read(data_offset_ + static_cast<uint64_t>(row) * items.size(), items);
  item_bytes_ == 4 ? widen<int32_t>(items, out) : widen<int64_t>(items, out);
}

std::pair<int64_t, int64_t> TokenArray::minimum_and_maximum() const {
  const auto bytes = static_cast<uint64_t>(rows_ * columns_ * item_bytes_);
  if (bytes == 0) return {0, -1};
  std::pair<int64_t, int64_t> all{std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min()};
  file_.read_blocks(data_offset_, bytes, [&](std::span<const std::byte> items) {
    const auto [minimum, maximum] =
        item_bytes_ == 4 ? extremes<int32_t>(items) : extremes<int64_t>(items);
    all = {std::min(all.first, minimum), std::max(all.second, maximum)};
  });
  return all;
}

}  // namespace fsdp
