#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "contract/inputs/safetensors.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/checkpoint/safetensors_writer.h"

// A rank's pieces as a safetensors file. The tensor "<state>/<parameter>@<offset>" holds a range of
// that state of the parameter, which goes by its first tensor's name; the metadata
// "elements:<parameter>" tells how many elements the whole has.
namespace fsdp {

std::string piece_file_name(const std::string& stem, int rank);

// Returns when the pieces may change. Throws std::runtime_error.
std::unique_ptr<SafetensorsWriter> write_piece_file(const std::filesystem::path& path,
                                                    const std::vector<Piece>& pieces,
                                                    WriterThread& thread);

// A range of a state, as it lies in a file.
struct StoredPiece {
  int64_t offset;
  int64_t elements;  // of the piece
  StoredTensor entry;
};

// The pieces of any number of files, by "<state>/<parameter>".
struct StoredPieces {
  std::map<std::string, std::vector<StoredPiece>> pieces;
  std::map<std::string, int64_t> elements;  // of the whole parameter, by its name

  // Adds the pieces of a file. Throws ConfigError when it is damaged.
  void add_file(const std::filesystem::path& file);
  // To be called after the last file.
  void sort();
};

std::string state_key(const std::string& state, const Parameter& parameter);

}  // namespace fsdp
