#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trainer/checkpoint/piece_file.h"
#include "trainer/checkpoint/trainer_state.h"

namespace fsdp {

// A complete checkpoint, written by any number of ranks with any strategy and wrap policy. Its
// files are open, and a read touches only the bytes it asks for.
class CheckpointReader {
 public:
  // Throws ConfigError (place: the folder or the file) if the folder is not a complete checkpoint,
  // or a file is missing, cut short or damaged.
  explicit CheckpointReader(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  const TrainerState& state() const { return state_; }
  // True if the folder is also a Hugging Face model.
  bool has_full_weights() const { return state_.state_dict == StateDict::kFull; }

  // Sets out to elements [offset, offset + out.numel()) of the flattened state: kWeights, or one of
  // the optimizer's. `out` is 1-dimensional, on any device. Values are exact if its dtype is the
  // stored one, else converted. Throws ConfigError if the checkpoint lacks some of them, or holds a
  // parameter of another shape.
  void read(const std::string& state, const Parameter& parameter, int64_t offset,
            const at::Tensor& out) const;

 private:
  // Returns the pieces in the order of their offsets.
  std::vector<StoredPiece> find_pieces(const std::string& state, const Parameter& parameter) const;
  std::vector<StoredPiece> full_weights(const Parameter& parameter) const;

  std::filesystem::path folder_;
  TrainerState state_;
  StoredPieces pieces_;
  StoredTensors full_weights_;
};

}  // namespace fsdp
