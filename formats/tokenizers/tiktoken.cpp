// Reads Llama 3's tiktoken file.
#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "base/text/config_error.h"
#include "formats/tokenizers/bpe_tokenizer.h"

namespace fsdp {
namespace {

constexpr int32_t kPieces = 128'000;
constexpr size_t kLongestPieceBytes = 1024;  // Llama 3's longest has 128
constexpr int32_t kSpecialTokenCount = 256;
constexpr std::string_view kSplit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::array<std::string_view, 12> kNamedTokens{"<|begin_of_text|>",
                                                        "<|end_of_text|>",
                                                        "<|reserved_special_token_0|>",
                                                        "<|reserved_special_token_1|>",
                                                        "<|finetune_right_pad_id|>",
                                                        "<|step_id|>",
                                                        "<|start_header_id|>",
                                                        "<|end_header_id|>",
                                                        "<|eom_id|>",
                                                        "<|eot_id|>",
                                                        "<|python_tag|>",
                                                        "<|image|>"};

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// nullopt if the text is not base64 or is empty.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_padding = i + padding >= text.size();
    const size_t value = is_padding ? 0 : kBase64.find(text[i]);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    if (i % 4 != 3) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 0xFF);
  }
  return bytes.substr(0, bytes.size() - padding);
}

struct RankedPiece {
  std::string bytes;
  int32_t rank;
};

std::optional<RankedPiece> read_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  auto bytes = from_base64(line.substr(0, space));
  const std::string_view number = line.substr(space + 1);
  RankedPiece piece{.bytes = {}, .rank = -1};
  const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), piece.rank);
  if (!bytes || error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  piece.bytes = std::move(*bytes);
  return piece;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

MapOfText<int32_t> read_pieces(const std::filesystem::path& file, std::string_view text) {
  MapOfText<int32_t> pieces;
  std::vector<bool> has_rank(kPieces);
  for (int64_t number = 1; !text.empty(); ++number) {
    const auto refuse = [&](const std::string& problem) {
      throw ConfigError(file.string() + ':' + std::to_string(number), "", problem);
    };
    const std::string_view line = take_line(text);
    if (line.empty()) continue;
    auto piece = read_line(line);
    if (!piece) refuse("is no line of a tiktoken file; needed: a piece in base64 and its rank");
    if (piece->bytes.size() > kLongestPieceBytes) {
      refuse("has a piece of " + std::to_string(piece->bytes.size()) + " bytes; allowed: at most " +
             std::to_string(kLongestPieceBytes));
    }
    if (piece->rank < 0 || piece->rank >= kPieces) {
      refuse("has the rank " + std::to_string(piece->rank) + "; allowed: 0 to " +
             std::to_string(kPieces - 1) + ", as Llama 3's file has them");
    }
    if (has_rank[static_cast<size_t>(piece->rank)]) refuse("has the rank of a line before it");
    has_rank[static_cast<size_t>(piece->rank)] = true;
    if (!pieces.emplace(std::move(piece->bytes), piece->rank).second) {
      refuse("has the piece of a line before it");
    }
  }
  if (pieces.size() != kPieces) {
    throw ConfigError(file.string(), "",
                      "has " + std::to_string(pieces.size()) +
                          " pieces; needed: " + std::to_string(kPieces) +
                          " as Llama 3's tokenizer.model. A tiktoken file does not say how text is "
                          "split, so use the tokenizer.json of other models");
  }
  return pieces;
}

// Two pieces merge if their joined text is a piece. The merge to the piece of the lowest rank comes
// first.
Merges merges_of(const MapOfText<int32_t>& pieces) {
  Merges merges;
  for (const auto& [bytes, rank] : pieces) {
    for (size_t i = 1; i < bytes.size(); ++i) {
      const auto left = pieces.find(std::string_view(bytes).substr(0, i));
      const auto right = pieces.find(std::string_view(bytes).substr(i));
      if (left == pieces.end() || right == pieces.end()) continue;
      merges.emplace(pair_of(left->second, right->second), Merge{.rank = rank, .id = rank});
    }
  }
  return merges;
}

}  // namespace

bool looks_like_tiktoken(std::string_view text) { return read_line(take_line(text)).has_value(); }

BpeParts read_tiktoken(const std::filesystem::path& file, std::string_view text) {
  BpeParts parts;
  parts.file = file;
  parts.vocabulary = read_pieces(file, text);
  parts.merges = merges_of(parts.vocabulary);
  parts.whole_words_first = true;
  parts.splits.push_back({.pattern = SplitPattern(kSplit)});
  for (int32_t i = 0; i < kSpecialTokenCount; ++i) {
    const auto named = static_cast<int32_t>(kNamedTokens.size());
    AddedToken token;
    token.text = i < named ? std::string(kNamedTokens[static_cast<size_t>(i)])
                           : "<|reserved_special_token_" + std::to_string(i - named + 2) + "|>";
    token.id = kPieces + i;
    token.is_special = true;
    parts.added_tokens.push_back(std::move(token));
  }
  parts.ends = {
      .begin = kPieces, .end = kPieces + 1, .padding = {}, .adds_begin = true, .adds_end = false};
  return parts;
}

}  // namespace fsdp
