// Reads .npy and .bin files of tokens. A file of another width is refused by its pattern.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/files/input_file.h"
#include "formats/data/document.h"
#include "formats/data/records.h"

namespace fsdp {
namespace {

using nlohmann::json;
using std::filesystem::path;
using namespace std::string_view_literals;

constexpr std::string_view kNumpyMagic = "\x93NUMPY";
constexpr size_t kMaxHeaderBytes = 1 << 16;
constexpr size_t kBeforeHeaderBytes = 12;  // at most: the magic, the version, the header's length
constexpr std::string_view kAllowed =
    "; allowed: an array of int32 or int64 [rows, sequence_length + 1], as numpy.save writes it";
constexpr int64_t kLeastTokens = 32;       // fewer are too few to show a pattern
constexpr int64_t kLargestUpperHalf = 15;  // the upper 16 bits of a uint32 token below 2^20
constexpr uint32_t kMagicOfLlmC = 20240520;
constexpr size_t kHeaderBytesOfLlmC = 1024;
constexpr uint32_t kWideVersionOfLlmC = 7;  // uint32; 1 is uint16

// Rows of tokens in a file. Each begins `stride` tokens after the beginning of the previous one.
struct Rows {
  int64_t count = 0;
  int64_t length = 0;
  int64_t stride = 0;
  uint64_t offset = 0;  // of the first row, in bytes
  int item_bytes = 4;
  bool is_signed = false;
};

template <typename Item, typename Visit>
void visit_items(std::span<const std::byte> bytes, Visit visit) {
  for (size_t i = 0; i < bytes.size() / sizeof(Item); ++i) {
    Item item;
    std::memcpy(&item, bytes.data() + i * sizeof(Item), sizeof(Item));
    visit(static_cast<int64_t>(item));
  }
}

template <typename Visit>
void visit_tokens(const Rows& rows, std::span<const std::byte> bytes, Visit visit) {
  if (rows.item_bytes == 8) return visit_items<int64_t>(bytes, visit);
  if (rows.item_bytes == 2) return visit_items<uint16_t>(bytes, visit);
  rows.is_signed ? visit_items<int32_t>(bytes, visit) : visit_items<uint32_t>(bytes, visit);
}

struct SeenTokens {
  int64_t count = 0;
  int64_t minimum = 0;
  int64_t maximum = -1;
  int64_t beyond = 0;  // tokens that are not below vocab_size
  // The largest token at each place within 8 bytes. Shows tokens that are wider than they are read.
  // Places 2 and 3 of uint32 stay 0.
  std::array<int64_t, 4> largest_at{};
};

SeenTokens see_tokens(const InputFile& file, const Rows& rows, uint64_t bytes, int64_t vocab_size) {
  SeenTokens seen{.minimum = std::numeric_limits<int64_t>::max()};
  const int64_t places = 8 / rows.item_bytes;
  file.read_blocks(rows.offset, bytes, [&](std::span<const std::byte> block) {
    visit_tokens(rows, block, [&](int64_t token) {
      seen.minimum = std::min(seen.minimum, token);
      seen.maximum = std::max(seen.maximum, token);
      seen.beyond += token >= vocab_size ? 1 : 0;
      int64_t& largest = seen.largest_at[static_cast<size_t>(seen.count++ & (places - 1))];
      largest = std::max(largest, token);
    });
  });
  return seen;
}

void check_tokens(const path& file, const std::string& where, int64_t minimum, int64_t maximum,
                  int64_t vocab_size) {
  if (minimum > maximum || (minimum >= 0 && maximum < vocab_size)) return;
  refuse_file(file, where + "holds the token " + std::to_string(minimum < 0 ? minimum : maximum) +
                        ", but the model's vocabulary has " + std::to_string(vocab_size) +
                        " tokens; allowed: 0 to " + std::to_string(vocab_size - 1));
}

class TokenRows : public DocumentFile {
 public:
  TokenRows(std::unique_ptr<const InputFile> file, const Rows& rows, int64_t vocab_size)
      : file_(std::move(file)), rows_(rows), vocab_size_(vocab_size) {}

  int64_t count() const override { return rows_.count; }
  int64_t length(int64_t) const override { return rows_.length; }
  int64_t padding_id() const override { return 0; }
  void read(int64_t document, int64_t begin, int64_t count, Document& out) const override {
    out.clear();
    const int64_t size = std::min(begin + count, rows_.length) - begin;
    if (size <= 0) return;
    std::vector<std::byte> bytes(static_cast<size_t>(size * rows_.item_bytes));
    const int64_t first = document * rows_.stride + begin;
    file_->read(rows_.offset + static_cast<uint64_t>(first * rows_.item_bytes), bytes);
    int64_t minimum = 0;
    int64_t maximum = 0;
    visit_tokens(rows_, bytes, [&](int64_t token) {
      minimum = std::min(minimum, token);
      maximum = std::max(maximum, token);
      out.push_back(static_cast<uint32_t>(token) | kTrainedOn);
    });
    // The file may have changed since the first check.
    check_tokens(file_->path(),
                 "changed since it was opened: row " + std::to_string(document) + ' ', minimum,
                 maximum, vocab_size_);
  }

 private:
  std::unique_ptr<const InputFile> file_;
  Rows rows_;
  int64_t vocab_size_;
};

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
  if (!text.starts_with(kNumpyMagic) || text.size() < kNumpyMagic.size() + 2) {
    refuse_file(file, "is no .npy file" + std::string(kAllowed));
  }
  const int version = static_cast<unsigned char>(text[kNumpyMagic.size()]);
  if (version < 1 || version > 3) {
    refuse_file(file, "is .npy version " + std::to_string(version) + "; allowed: 1, 2, 3");
  }
  const size_t length_offset = kNumpyMagic.size() + 2;
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

Rows read_npy_rows(const InputFile& file) {
  const path& name = file.path();
  const std::string begin = file.read_text(0, kMaxHeaderBytes + kBeforeHeaderBytes);
  const auto [fields, data_offset] = read_header(name, begin);
  const int item_bytes = read_item_bytes(name, fields["descr"]);
  if (fields["fortran_order"] != false) {
    refuse_file(name, "is in Fortran order; save numpy.ascontiguousarray(array)");
  }
  const json& shape = fields["shape"];
  const auto is_size = [](const json& value) {
    return value.is_number_unsigned() &&
           value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  };
  if (!shape.is_array() || shape.size() != 2 || !is_size(shape[0]) || !is_size(shape[1])) {
    refuse_file(name, "has shape " + shape.dump() + ", not two dimensions" + std::string(kAllowed));
  }
  auto bytes = static_cast<uint64_t>(item_bytes);
  const size_t held = file.size_bytes() - data_offset;
  const bool overflows = __builtin_mul_overflow(bytes, shape[0].get<uint64_t>(), &bytes) ||
                         __builtin_mul_overflow(bytes, shape[1].get<uint64_t>(), &bytes);
  if (overflows || bytes != held) {
    refuse_file(name, "has shape " + shape.dump() + " and dtype " + fields["descr"].dump() +
                          ", which does not fit its " + std::to_string(held) +
                          " bytes of data; it is damaged or cut short");
  }
  const auto columns = shape[1].get<int64_t>();
  return {.count = shape[0].get<int64_t>(),
          .length = columns,
          .stride = columns,
          .offset = data_offset,
          .item_bytes = item_bytes,
          .is_signed = true};
}

uint32_t word(std::string_view bytes, size_t place) {
  uint32_t value = 0;
  if (bytes.size() >= place + sizeof(value)) {
    std::memcpy(&value, bytes.data() + place, sizeof(value));
  }
  return value;
}

// The dtype in Megatron-LM's index; empty if `index` is not such a file.
std::string_view dtype_of_megatron(const InputFile& index) {
  constexpr std::string_view kMagic = "MMIDIDX\0\0"sv;
  constexpr size_t kDtypePlace = kMagic.size() + sizeof(uint64_t);  // behind the version
  constexpr std::array kNames = {"another dtype"sv, "uint8"sv,   "int8"sv,    "int16"sv, "int32"sv,
                                 "int64"sv,         "float64"sv, "float32"sv, "uint16"sv};
  const std::string begin = index.read_text(0, kDtypePlace + 1);
  if (!begin.starts_with(kMagic)) return "";
  const size_t code = begin.size() > kDtypePlace ? static_cast<unsigned char>(begin.back()) : 0;
  return kNames[code < kNames.size() ? code : 0];
}

void check_index_of_megatron(const path& file, TokenDtype read_as) {
  const path index = path(file).replace_extension(".idx");
  if (!input_exists(index)) return;
  const std::string_view dtype = dtype_of_megatron(InputFile(index));
  const bool is_wide = dtype == "int32";
  if (dtype.empty() || (dtype == "uint16" && read_as == TokenDtype::kUint16) ||
      (is_wide && read_as == TokenDtype::kUint32)) {
    return;
  }
  std::string remedy;
  if (is_wide || dtype == "uint16") {
    remedy = "set data.token_dtype: " + std::string(is_wide ? "uint32" : "uint16");
  } else {
    remedy = "write its tokens as uint16 or uint32";
  }
  refuse_file(file, "is of Megatron-LM, with tokens of " + std::string(dtype) + " (" +
                        index.filename().string() + "), but would be read as " +
                        std::string(name_of(read_as)) + "; " + remedy +
                        ". Its documents are read one after the other");
}

// Refuses a file that begins with a header of llm.c or NumPy. Unless a dtype was chosen, also
// refuses an archive, and a file with an index of Megatron-LM that names another dtype than
// `read_as`.
void require_bare_tokens(const InputFile& file, TokenDtype read_as, bool is_chosen) {
  const std::string begin = file.read_text(0, kKnownContentsBytes);
  if (begin.size() < kKnownContentsBytes) return;
  if (!is_chosen) refuse_packed(file.path(), begin);
  if (begin.starts_with(kNumpyMagic)) {
    refuse_file(file.path(), "is a .npy array; give it a name that ends in .npy");
  }
  if (word(begin, 0) == kMagicOfLlmC && file.size_bytes() >= kHeaderBytesOfLlmC) {
    const bool is_wide = word(begin, sizeof(uint32_t)) == kWideVersionOfLlmC;
    refuse_file(file.path(), std::string("begins with the header of llm.c; `tail -c +") +
                                 std::to_string(kHeaderBytesOfLlmC + 1) +
                                 " FILE > OTHER.bin` leaves its tokens, with data.token_dtype: " +
                                 (is_wide ? "uint32" : "uint16"));
  }
  if (!is_chosen) check_index_of_megatron(file.path(), read_as);
}

// Returns a message if tokens seem to be wider than `read_as`: "every second token is 0, as in a
// file of uint32; ...". Returns an empty text if they are plausible.
std::string wider_tokens(const SeenTokens& seen_tokens, TokenDtype read_as) {
  const auto& at = seen_tokens.largest_at;
  if (seen_tokens.count < kLeastTokens) return "";
  const bool is_narrow = read_as == TokenDtype::kUint16;
  const int64_t first = is_narrow ? std::max(at[0], at[2]) : at[0];
  const int64_t second = is_narrow ? std::max(at[1], at[3]) : at[1];
  const int64_t most = is_narrow ? kLargestUpperHalf : 0;
  if (first <= kLargestUpperHalf || second > most) return "";
  const std::string seen =
      "every second token is " + (second == 0 ? "0" : "at most " + std::to_string(second)) + ", ";
  const std::string chosen(name_of(read_as));
  const std::string if_not = ". If its tokens are " + chosen + ", set data.token_dtype: " + chosen;
  if (!is_narrow || (at[2] == 0 && at[3] == 0)) {
    return seen +
           "as in a file of int64; `python3 -c \"import numpy; numpy.fromfile('FILE', "
           "'int64').astype('uint32').tofile('OTHER.bin')\"` and data.token_dtype: uint32 "
           "read it" +
           if_not;
  }
  return seen + "as in a file of uint32; if it is one, set data.token_dtype: uint32" + if_not;
}

std::unique_ptr<DocumentFile> open_npy(const path& name, int64_t sequence_length,
                                       int64_t vocab_size) {
  auto file = std::make_unique<const InputFile>(name);
  const Rows rows = read_npy_rows(*file);
  if (rows.length != sequence_length + 1) {
    refuse_file(name, "has rows of " + std::to_string(rows.length) +
                          " tokens; needed: data.sequence_length + 1 = " +
                          std::to_string(sequence_length + 1));
  }
  const SeenTokens seen = see_tokens(*file, rows, file->size_bytes() - rows.offset, vocab_size);
  check_tokens(name, "", seen.minimum, seen.maximum, vocab_size);
  return std::make_unique<TokenRows>(std::move(file), rows, vocab_size);
}

std::unique_ptr<DocumentFile> open_bin(const path& name, int64_t sequence_length,
                                       int64_t vocab_size, TokenDtype dtype, bool is_chosen) {
  auto file = std::make_unique<const InputFile>(name);
  require_bare_tokens(*file, dtype, is_chosen);
  const int item_bytes = dtype == TokenDtype::kUint16 ? 2 : 4;
  const uint64_t bytes = file->size_bytes();
  if (bytes % static_cast<uint64_t>(item_bytes) != 0) {
    refuse_file(name, "holds " + std::to_string(bytes) +
                          " bytes, which is not a whole number of tokens of " +
                          std::to_string(item_bytes) +
                          " bytes each; it is cut short, or not a .bin of tokens");
  }
  const auto tokens = static_cast<int64_t>(bytes) / item_bytes;
  const Rows rows{.count = std::max<int64_t>(0, tokens - 1) / sequence_length,
                  .length = sequence_length + 1,
                  .stride = sequence_length,
                  .item_bytes = item_bytes};
  const SeenTokens seen = see_tokens(*file, rows, bytes, vocab_size);
  if (!is_chosen) {
    const std::string problem = wider_tokens(seen, dtype);
    if (!problem.empty()) refuse_file(name, problem);
  }
  if (dtype == TokenDtype::kUint32 && seen.beyond > tokens / 2) {
    refuse_file(name, "holds " + std::to_string(seen.beyond) + " of " + std::to_string(tokens) +
                          " tokens beyond the model's vocabulary of " + std::to_string(vocab_size) +
                          ", as a file of uint16 that is read as uint32; if it is one, "
                          "set data.token_dtype: uint16");
  }
  check_tokens(name, "", seen.minimum, seen.maximum, vocab_size);
  return std::make_unique<TokenRows>(std::move(file), rows, vocab_size);
}

}  // namespace

std::unique_ptr<DocumentFile> open_token_file(const path& file, int64_t sequence_length,
                                              int64_t vocab_size,
                                              const std::optional<TokenDtype>& dtype) {
  constexpr int64_t kMostOfUint16 = 65'536;
  if (file.extension() != ".bin") return open_npy(file, sequence_length, vocab_size);
  const TokenDtype by_vocabulary =
      vocab_size > kMostOfUint16 ? TokenDtype::kUint32 : TokenDtype::kUint16;
  return open_bin(file, sequence_length, vocab_size, dtype.value_or(by_vocabulary),
                  dtype.has_value());
}

}  // namespace fsdp
