#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/weights/safetensors.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/checkpoint/safetensors_writer.h"

// A rank's pieces as a safetensors file. The tensor "<state>/<parameter>@<offset>" holds a range of
// the parameter's state, which begins at element <offset>. <parameter> is the name of the
// parameter's first tensor. The metadata "elements:<parameter>" is the number of elements of the
// whole parameter.
namespace fsdp {

std::string piece_file_name(const std::string& stem, int rank);

// Returns the size of the pieces' file. The pieces may be on meta.
int64_t piece_file_bytes(const std::vector<Piece>& pieces);

// Writes the pieces. Returns when they may change. Throws std::runtime_error.
std::unique_ptr<SafetensorsWriter> write_piece_file(const std::filesystem::path& path,
                                                    const std::vector<Piece>& pieces,
                                                    WriterThread& thread);

// A range of a parameter's state in a file.
struct StoredPiece {
  int64_t offset;
  int64_t elements;  // of the piece
  StoredTensor entry;
};

// The pieces of several files, by "<state>/<parameter>".
struct StoredPieces {
  std::map<std::string, std::vector<StoredPiece>> pieces;
  std::map<std::string, int64_t> elements;  // of the whole parameter, by its name

  // Adds the pieces of a file. Throws ConfigError if the file is damaged.
  void add_file(const std::filesystem::path& file);
  // Sorts the pieces by offset. Call it after the last file.
  void sort();
};

std::string state_key(const std::string& state, const Parameter& parameter);

}  // namespace fsdp
