#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace fsdp {

// Convert between a dtype and its name in safetensors files, such as "F32". dtype_of_name returns
// nullopt if the name is unknown.
std::string stored_name(at::ScalarType dtype);
std::optional<at::ScalarType> dtype_of_name(const std::string& name);

// The bytes of a contiguous CPU tensor; valid as long as the tensor is.
std::span<const std::byte> bytes_of_tensor(const at::Tensor& tensor);

}  // namespace fsdp
