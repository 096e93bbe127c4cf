#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fsdp {

std::string gzipped(std::string_view bytes);

// Throws std::runtime_error if the bytes are not whole, or stand for more than `most_bytes`.
std::string gunzipped(std::string_view bytes, size_t most_bytes);

}  // namespace fsdp
