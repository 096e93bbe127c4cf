#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fsdp {

// Decodes a piece that a tokenizer.json writes in GPT-2's letters for bytes: "Ġthe" is " the".
// nullopt if `piece` has other characters.
std::optional<std::string> bytes_of_byte_level(std::string_view piece);

// GPT-2's split into words, the default of byte-level tokenizers.
inline constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace fsdp
