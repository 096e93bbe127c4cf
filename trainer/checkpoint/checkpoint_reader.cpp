// Reads ranges of states from a checkpoint's files, whichever ranks have written the ranges.
#include "trainer/checkpoint/checkpoint_reader.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <memory>

#include "base/text/config_error.h"
#include "formats/weights/weights.h"
#include "trainer/checkpoint/stored_dtype.h"

namespace fsdp {
namespace {

using std::filesystem::path;

WeightsOf kind_of(const TrainerState& state) {
  const bool has_adapters = std::ranges::any_of(state.files, [](const CheckpointFile& file) {
    return file.name.starts_with("adapter_model");
  });
  return has_adapters ? WeightsOf::kAdapter : WeightsOf::kModel;
}

bool is_piece_file(const std::string& name) {
  return name.find(".rank") != std::string::npos && name.ends_with(".safetensors");
}

// Sets `out` to elements [first, first + out.numel()) of the flattened tensor.
void copy(const StoredTensor& entry, int64_t first, const at::Tensor& out) {
  const at::ScalarType dtype = *dtype_of_name(entry.dtype);
  const uint64_t item_bytes = c10::elementSize(dtype);
  if (out.is_cpu() && out.is_contiguous() && out.scalar_type() == dtype) {
    entry.read(first * item_bytes, {static_cast<std::byte*>(out.data_ptr()), out.nbytes()});
    return;
  }
  constexpr int64_t kBlock = 1 << 20;
  // The buffer is no tensor, because a plan would have to count its memory.
  const auto staged =
      std::make_unique_for_overwrite<std::byte[]>(std::min(kBlock, out.numel()) * item_bytes);
  for (int64_t done = 0; done < out.numel(); done += kBlock) {
    const int64_t count = std::min(kBlock, out.numel() - done);
    entry.read((first + done) * item_bytes, {staged.get(), count * item_bytes});
    out.narrow(0, done, count).copy_(at::from_blob(staged.get(), {count}, dtype));
  }
}

}  // namespace

CheckpointReader::CheckpointReader(path folder)
    : folder_(std::move(folder)), state_(read_trainer_state(folder_)) {
  if (has_full_weights()) full_weights_ = read_weights(folder_, kind_of(state_));
  for (const CheckpointFile& file : state_.files) {
    if (is_piece_file(file.name)) pieces_.add_file(folder_ / file.name);
  }
  pieces_.sort();
}

void CheckpointReader::require_only(const std::set<std::string>& names) const {
  const auto require = [&](const std::string& name) {
    if (names.contains(name)) return;
    refuse_file(folder_, "holds '" + name + "', which the run's model lacks or does not train");
  };
  for (const auto& [name, tensor] : full_weights_) require(name);
  for (const auto& [key, pieces] : pieces_.pieces) require(key.substr(key.find('/') + 1));
}

void CheckpointReader::read(const std::string& state, const Parameter& parameter, int64_t offset,
                            const at::Tensor& out) const {
  TORCH_CHECK(out.dim() == 1 && offset >= 0 && offset + out.numel() <= parameter.numel());
  const int64_t end = offset + out.numel();
  int64_t begin = offset;  // the first element that is still to be read
  for (const StoredPiece& piece : find_pieces(state, parameter)) {
    const int64_t piece_end = piece.offset + piece.elements;
    if (begin == end || piece.offset > begin) break;
    if (piece_end <= begin) continue;
    const int64_t count = std::min(end, piece_end) - begin;
    copy(piece.entry, begin - piece.offset, out.narrow(0, begin - offset, count));
    begin += count;
  }
  // Pieces are sorted, so a gap shows here.
  if (begin < end) {
    refuse_file(folder_, "lacks element " + std::to_string(begin) + " of '" +
                             state_key(state, parameter) +
                             "'; the checkpoint is damaged, or of another model, optimizer.kind or "
                             "optimizer.state_dtype");
  }
}

std::vector<StoredPiece> CheckpointReader::find_pieces(const std::string& state,
                                                       const Parameter& parameter) const {
  if (has_full_weights() && state == kWeights) return full_weights(parameter);
  const auto found = pieces_.pieces.find(state_key(state, parameter));
  if (found == pieces_.pieces.end()) return {};
  const auto elements = pieces_.elements.find(parameter.tensors().front().name);
  if (elements == pieces_.elements.end() || elements->second != parameter.numel()) {
    refuse_file(folder_, "holds '" + found->first + "' for a parameter of " +
                             (elements == pieces_.elements.end()
                                  ? "unknown size"
                                  : std::to_string(elements->second) + " elements") +
                             "; the model's has " + std::to_string(parameter.numel()));
  }
  return found->second;
}

std::vector<StoredPiece> CheckpointReader::full_weights(const Parameter& parameter) const {
  std::vector<StoredPiece> pieces;
  int64_t offset = 0;
  for (const NamedTensor& tensor : parameter.tensors()) {
    const int64_t elements = c10::multiply_integers(tensor.shape);
    const auto found = full_weights_.find(tensor.name);
    if (found != full_weights_.end()) {
      const StoredTensor& entry = found->second;
      if (entry.shape != tensor.shape || !dtype_of_name(entry.dtype)) {
        refuse_file(folder_, "holds tensor '" + tensor.name + "' of dtype " + entry.dtype +
                                 " and shape " + c10::str(at::IntArrayRef(entry.shape)) +
                                 "; the model's has shape " +
                                 c10::str(at::IntArrayRef(tensor.shape)));
      }
      pieces.push_back({.offset = offset, .elements = elements, .entry = entry});
    }
    offset += elements;
  }
  return pieces;
}

}  // namespace fsdp
