#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fsdp {

// GPT-2's letters for bytes, in which a tokenizer.json writes its pieces: "Ġthe" is " the".
// Nothing when `piece` has other characters.
std::optional<std::string> bytes_of_byte_level(std::string_view piece);

// GPT-2's split to words, which is what byte-level does when it is not told otherwise.
inline constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace fsdp
