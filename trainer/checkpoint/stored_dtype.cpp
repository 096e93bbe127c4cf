// Maps libtorch's dtypes to the names of safetensors.
#include "trainer/checkpoint/stored_dtype.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace fsdp {
namespace {

struct StoredDtype {
  at::ScalarType dtype;
  std::string_view name;
};
constexpr std::array kDtypes{StoredDtype{at::kFloat, "F32"}, StoredDtype{at::kBFloat16, "BF16"},
                             StoredDtype{at::kHalf, "F16"},  StoredDtype{at::kDouble, "F64"},
                             StoredDtype{at::kLong, "I64"},  StoredDtype{at::kByte, "U8"}};

}  // namespace

std::string stored_name(at::ScalarType dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &StoredDtype::dtype);
  TORCH_CHECK(found != kDtypes.end(), "checkpoints do not hold tensors of dtype ", dtype);
  return std::string(found->name);
}

std::optional<at::ScalarType> dtype_of_name(const std::string& name) {
  const auto found = std::ranges::find(kDtypes, name, &StoredDtype::name);
  if (found == kDtypes.end()) return std::nullopt;
  return found->dtype;
}

std::span<const std::byte> bytes_of_tensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "a contiguous CPU tensor is needed");
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace fsdp
