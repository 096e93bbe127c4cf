#pragma once

#include <filesystem>
#include <map>
#include <set>
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
  // True if the folder holds whole weights: a Hugging Face model, or adapters in PEFT's format.
  bool has_full_weights() const { return state_.state_dict == StateDict::kFull; }
  // Throws ConfigError if the checkpoint holds a tensor, or its state, that is none of `names`.
  void require_only(const std::set<std::string>& names) const;

  // Sets `out` to elements [offset, offset + out.numel()) of a flattened state of the parameter.
  // `state` is kWeights or a state of the optimizer, such as "exp_avg". `out` is 1-dimensional, on
  // any device. Values are converted if `out` does not have the stored dtype. Throws ConfigError if
  // the checkpoint lacks some of the elements, or holds the parameter in another shape.
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
