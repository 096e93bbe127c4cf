#include "contract/data/token_bytes.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "contract/files/known_contents.h"

namespace fsdp {
namespace {

using std::filesystem::path;
using namespace std::string_view_literals;

constexpr int64_t kLeastTokens = 32;        // fewer say nothing of a pattern
constexpr uint32_t kLargestUpperHalf = 15;  // of a token of uint32 in a vocabulary below 2^20
constexpr uint32_t kMagicOfLlmC = 20240520;
constexpr size_t kHeaderBytesOfLlmC = 1024;
constexpr uint32_t kWideVersionOfLlmC = 7;  // uint32; 1 is uint16

uint32_t word(std::string_view bytes, size_t place) {
  uint32_t value = 0;
  if (bytes.size() >= place + sizeof(value)) {
    std::memcpy(&value, bytes.data() + place, sizeof(value));
  }
  return value;
}

std::string begin_of(const InputFile& file, uint64_t count) {
  std::string begin(std::min(count, file.size_bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(begin)));
  return begin;
}

// The dtype in Megatron-LM's index; empty if `index` is not such a file.
std::string_view dtype_of_megatron(const InputFile& index) {
  constexpr std::string_view kMagic = "MMIDIDX\0\0"sv;
  constexpr size_t kDtypePlace = kMagic.size() + sizeof(uint64_t);  // behind the version
  constexpr std::array kNames = {"another dtype"sv, "uint8"sv,   "int8"sv,    "int16"sv, "int32"sv,
                                 "int64"sv,         "float64"sv, "float32"sv, "uint16"sv};
  const std::string begin = begin_of(index, kDtypePlace + 1);
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

}  // namespace

void require_bare_tokens(const InputFile& file, TokenDtype read_as, bool is_chosen) {
  const std::string begin = begin_of(file, kKnownContentsBytes);
  if (begin.size() < kKnownContentsBytes) return;
  if (!is_chosen) refuse_packed(file.path(), begin);
  if (begin.starts_with("\x93NUMPY"sv)) {
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

std::string wider_tokens(const LargestTokens& largest, TokenDtype read_as) {
  const auto& at = largest.at;
  if (largest.count < kLeastTokens) return "";
  const bool is_narrow = read_as == TokenDtype::kUint16;
  const uint32_t first = is_narrow ? std::max(at[0], at[2]) : at[0];
  const uint32_t second = is_narrow ? std::max(at[1], at[3]) : at[1];
  const uint32_t most = is_narrow ? kLargestUpperHalf : 0;
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

}  // namespace fsdp
