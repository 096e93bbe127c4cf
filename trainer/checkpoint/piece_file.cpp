// Writes a rank's pieces of states as safetensors, and finds the pieces of all ranks by state.
#include "trainer/checkpoint/piece_file.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/files/input_file.h"
#include "trainer/checkpoint/stored_dtype.h"

namespace fsdp {
namespace {

using std::filesystem::path;

constexpr std::string_view kElements = "elements:";

std::optional<int64_t> read_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
  if (error != std::errc() || end != text.end() || value < 0) return std::nullopt;
  return value;
}

const std::string& name_of(const Parameter& parameter) { return parameter.tensors().front().name; }

std::string piece_key(const Piece& piece) {
  return state_key(piece.state, piece.parameter) + '@' + std::to_string(piece.offset);
}

void check_piece(const Piece& piece) {
  const at::Tensor& part = piece.part;
  TORCH_CHECK(piece.state.find('/') == std::string::npos, "a state's name with '/': ", piece.state);
  TORCH_CHECK(part.dim() == 1 && part.is_contiguous() && piece.offset >= 0 &&
                  piece.offset + part.numel() <= piece.parameter.numel(),
              piece_key(piece), ": not a range of the flattened parameter");
}

struct PieceFileContents {
  std::vector<SafetensorsTensor> tensors;  // without empty pieces
  std::map<std::string, std::string> metadata;
};

PieceFileContents contents_of(const std::vector<Piece>& pieces) {
  PieceFileContents contents;
  for (const Piece& piece : pieces) {
    check_piece(piece);
    if (piece.part.numel() == 0) continue;
    contents.tensors.push_back({.name = piece_key(piece),
                                .dtype = stored_name(piece.part.scalar_type()),
                                .shape = {piece.part.numel()},
                                .size_bytes = static_cast<int64_t>(piece.part.nbytes())});
    contents.metadata.emplace(std::string(kElements) + name_of(piece.parameter),
                              std::to_string(piece.parameter.numel()));
  }
  return contents;
}

}  // namespace

std::string state_key(const std::string& state, const Parameter& parameter) {
  return state + '/' + name_of(parameter);
}

std::string piece_file_name(const std::string& stem, int rank) {
  return stem + ".rank" + std::to_string(rank) + ".safetensors";
}

int64_t piece_file_bytes(const std::vector<Piece>& pieces) {
  const auto [tensors, metadata] = contents_of(pieces);
  return safetensors_file_bytes(tensors, metadata);
}

std::unique_ptr<SafetensorsWriter> write_piece_file(const path& path,
                                                    const std::vector<Piece>& pieces,
                                                    WriterThread& thread) {
  const auto [tensors, metadata] = contents_of(pieces);
  auto file = std::make_unique<SafetensorsWriter>(path, tensors, metadata);
  for (const Piece& piece : pieces) {
    if (piece.part.numel() == 0) continue;
    file->write(piece_key(piece), piece.part, thread);
  }
  return file;
}

void StoredPieces::add_file(const path& file) {
  SafetensorsFile contents = read_safetensors(std::make_shared<const InputFile>(file));
  for (const auto& [key, text] : contents.metadata) {
    if (!key.starts_with(kElements)) continue;
    const auto count = read_count(text);
    if (!count) refuse_file(file, "has metadata '" + key + "' that is no count: " + text);
    const auto [known, is_new] = elements.emplace(key.substr(kElements.size()), *count);
    if (!is_new && known->second != *count) {
      refuse_file(file, "was written for another model than the files before it: '" + known->first +
                            "' has " + text + " elements instead of " +
                            std::to_string(known->second));
    }
  }
  for (auto& [key, entry] : contents.tensors) {
    const size_t at = key.rfind('@');
    const auto offset = at == std::string::npos ? std::nullopt : read_count(key.substr(at + 1));
    if (!offset || entry.shape.size() != 1 || !dtype_of_name(entry.dtype)) {
      refuse_file(file, "tensor '" + key + "' is no piece of a parameter");
    }
    const int64_t size = entry.shape[0];
    pieces[key.substr(0, at)].push_back(
        {.offset = *offset, .elements = size, .entry = std::move(entry)});
  }
}

void StoredPieces::sort() {
  for (auto& [key, ranges] : pieces) std::ranges::sort(ranges, {}, &StoredPiece::offset);
}

}  // namespace fsdp
