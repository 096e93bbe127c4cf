// Lists what a checkpoint holds. Plans add up the same list, so their sizes are the files'.
#include "trainer/checkpoint/saved_state.h"

#include <algorithm>
#include <iterator>

#include "base/files/file_digest.h"
#include "trainer/checkpoint/full_weights_writer.h"
#include "trainer/checkpoint/piece_file.h"

namespace fsdp {
namespace {

std::vector<ParameterPtr> parameters_of(const Model& model, bool is_trained) {
  std::vector<ParameterPtr> parameters;
  for (const auto& part : model.modules) {
    std::ranges::copy_if(
        part->parameters(), std::back_inserter(parameters),
        [&](const ParameterPtr& parameter) { return parameter->is_trained() == is_trained; });
  }
  return parameters;
}

// The files of a checkpoint and their sizes.
class FileSizes {
 public:
  // Adds the files that FullWeightsWriter writes.
  void add_model(const std::string& folder, std::span<const ParameterPtr> parameters,
                 at::ScalarType dtype, const ModelFiles& files) {
    add(folder + files.weights + ".safetensors", full_weights_bytes(parameters, dtype, files));
    add(folder + files.config_name, std::ssize(files.config));
    for (const auto& [name, source, text] : files.copied) {
      add(folder + name, source.empty() ? std::ssize(text) : state_of(source).size_bytes);
    }
  }
  void add(const std::string& name, int64_t bytes) {
    files_.push_back({.name = name, .size_bytes = bytes, .xxh3_128 = std::string(32, '0')});
    bytes_ += bytes;
  }
  const std::vector<CheckpointFile>& files() const { return files_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::vector<CheckpointFile> files_;
  int64_t bytes_ = 0;
};

}  // namespace

std::vector<Piece> optimizer_pieces(TrainingStep& training, int64_t shard_index) {
  std::vector<Piece> pieces;
  ShardStore& store = training.store();
  for (int unit = 0; unit < store.unit_count(); ++unit) {
    training.optimizer().for_each_state(unit, store.layout(unit), shard_index,
                                        [&](const std::string& name, const Parameter& parameter,
                                            int64_t offset, const at::Tensor& part) {
                                          pieces.push_back({name, parameter, offset, part});
                                        });
  }
  return pieces;
}

std::vector<Piece> weight_pieces(TrainingStep& training, int64_t shard_index) {
  std::vector<Piece> pieces;
  ShardStore& store = training.store();
  const std::vector<at::Tensor> shards = store.optimizer_parameters();
  for (int unit = 0; unit < store.unit_count(); ++unit) {
    store.layout(unit).for_each_part(
        shards[unit], shard_index,
        [&](const Parameter& parameter, int64_t offset, const at::Tensor& part) {
          pieces.push_back({kWeights, parameter, offset, part});
        });
  }
  return pieces;
}

std::vector<ParameterPtr> saved_parameters(const TrainingStep& training) {
  return parameters_of(training.model(), /*is_trained=*/true);
}

std::vector<ParameterPtr> frozen_parameters(const TrainingStep& training) {
  return parameters_of(training.model(), /*is_trained=*/false);
}

int64_t checkpoint_bytes(const RunSpec& spec, TrainingStep& training, const Mesh& mesh) {
  FileSizes sizes;
  const bool is_full = spec.checkpoint.state_dict == StateDict::kFull;
  for (int rank = 0; rank < mesh.shard_count(); ++rank) {
    sizes.add(piece_file_name(kOptimizer, rank),
              piece_file_bytes(optimizer_pieces(training, rank)));
    if (is_full) continue;
    sizes.add(piece_file_name(kWeights, rank), piece_file_bytes(weight_pieces(training, rank)));
  }
  if (is_full) {
    const at::ScalarType dtype = training.store().options().dtype;
    sizes.add_model("", saved_parameters(training), dtype,
                    model_files(spec, training.config(), dtype));
  }
  if (spec.checkpoint.merge) {
    sizes.add_model(kMergedFolder + std::string("/"), frozen_parameters(training),
                    merged_dtype(spec), merged_model_files(spec, training.config()));
  }
  TrainerState state;
  state.basis = basis_of(spec, training.config(), spec.train.steps.value_or(kMostSteps));
  state.basis->data = std::string(32, '0');
  state.files = sizes.files();
  return sizes.bytes() + std::ssize(to_json(state));
}

}  // namespace fsdp
