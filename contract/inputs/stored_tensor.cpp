#include "contract/inputs/stored_tensor.h"

#include <algorithm>
#include <array>
#include <bit>

namespace fsdp {
namespace {

static_assert(std::endian::native == std::endian::little);

struct StoredDtype {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array kDtypes{
    StoredDtype{"F32", 4},     StoredDtype{"BF16", 2},    StoredDtype{"F16", 2},
    StoredDtype{"F64", 8},     StoredDtype{"I64", 8},     StoredDtype{"I32", 4},
    StoredDtype{"I16", 2},     StoredDtype{"I8", 1},      StoredDtype{"U64", 8},
    StoredDtype{"U32", 4},     StoredDtype{"U16", 2},     StoredDtype{"U8", 1},
    StoredDtype{"F8_E4M3", 1}, StoredDtype{"F8_E5M2", 1}, StoredDtype{"BOOL", 1}};

}  // namespace

std::optional<uint64_t> item_bytes(std::string_view dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &StoredDtype::name);
  if (found == kDtypes.end()) return std::nullopt;
  return found->bytes;
}

std::optional<uint64_t> tensor_bytes(const std::vector<int64_t>& shape, uint64_t item_bytes) {
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  uint64_t bytes = item_bytes;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace fsdp
