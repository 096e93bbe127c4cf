#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace fsdp {

// The format's name of a dtype ("F32"), and back; nullopt for an unknown name.
std::string stored_name(at::ScalarType dtype);
std::optional<at::ScalarType> dtype_of_name(const std::string& name);

// The bytes of a contiguous CPU tensor; valid as long as the tensor is.
std::span<const std::byte> bytes_of_tensor(const at::Tensor& tensor);

}  // namespace fsdp
