#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "base/text/config_error.h"
#include "tests/temporary_folder.h"
#include "trainer/checkpoint/checkpoint_folders.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/checkpoint/full_weights_writer.h"

// Checkpoints of a small model, written and read by the ranks of a simulated run.
namespace fsdp {

// One of several ranks in one process. The ranks call each operation in rank order.
class SimulatedRank : public ProcessGroup {
 public:
  using Values = std::map<std::string, std::string>;
  SimulatedRank(int rank, int size, std::shared_ptr<Values> values)
      : ProcessGroup(rank, size), values_(std::move(values)) {}

  Pending all_gather(at::Tensor, at::Tensor, int) override { refuse(); }
  Pending reduce_scatter(at::Tensor, at::Tensor, int) override { refuse(); }
  Pending all_reduce(at::Tensor, int) override { refuse(); }
  std::unique_ptr<ProcessGroup> subgroup(const std::string&, const std::vector<int>&) override {
    refuse();
  }
  void barrier() override {}
  std::string agree(const std::string& key, const std::string& value) override {
    if (rank() == 0) (*values_)[key] = value;
    return values_->at(key);
  }
  void leave(const std::string& key, const std::string& value) override { (*values_)[key] = value; }
  bool is_left(const std::string& key) override { return values_->contains(key); }
  std::string take(const std::string& key) override { return values_->extract(key).mapped(); }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("checkpoints need no collectives"); }

  std::shared_ptr<Values> values_;
};

inline std::vector<std::unique_ptr<ProcessGroup>> simulated_world(int size) {
  const auto values = std::make_shared<SimulatedRank::Values>();
  std::vector<std::unique_ptr<ProcessGroup>> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<SimulatedRank>(rank, size, values));
  }
  return ranks;
}

inline std::vector<ParameterPtr> test_parameters(int64_t largest = 1000) {
  const auto parameter = [](std::vector<NamedTensor> tensors) {
    return c10::make_intrusive<Parameter>(ParameterSpec{.tensors = std::move(tensors)});
  };
  return {parameter({{"embedding", {7, 5}}}), parameter({{"query", {3, 4}}, {"key", {2, 4}}}),
          parameter({{"norm", {2}}}), parameter({{"head", {largest}}})};
}

inline const std::vector<std::string> kStates{kWeights, "exp_avg", "exp_avg_sq"};

inline at::ScalarType dtype_of_state(const std::string& state) {
  return state == "exp_avg_sq" ? at::kBFloat16 : at::kFloat;
}

// Returns a whole flattened state. Its values differ for every parameter, state and seed.
inline at::Tensor state_values(const std::string& state, const Parameter& parameter, int64_t seed) {
  const int64_t start = seed * 131 + static_cast<int64_t>(state.size()) * 17 +
                        static_cast<int64_t>(parameter.tensors().front().name.size());
  return at::arange(parameter.numel(), at::kLong)
      .mul(7919)
      .add(start)
      .remainder(1'000'003)
      .to(dtype_of_state(state));
}

struct WrittenCheckpoint {
  int64_t step = 1;
  int world_size = 1;
  int shard_ranks = 1;
  StateDict state_dict = StateDict::kSharded;
  int64_t seed = 0;
  std::optional<int64_t> keep = std::nullopt;
  std::optional<double> validation_loss = std::nullopt;
  int rank_without_pieces = -1;
  int64_t max_file_bytes = kMaxFileBytes;
};

// Returns the boundaries of `parts` random ranges of [0, count). Ranges may be empty.
inline std::vector<int64_t> random_boundaries(int64_t count, int parts, std::mt19937& engine) {
  std::vector<int64_t> boundaries{0, count};
  std::uniform_int_distribution<int64_t> place(0, count);
  while (std::ssize(boundaries) <= parts) boundaries.push_back(place(engine));
  std::ranges::sort(boundaries);
  return boundaries;
}

// Returns each rank's pieces of these states. Every parameter is cut at random into two pieces per
// rank.
inline std::vector<std::vector<Piece>> random_pieces(const std::vector<ParameterPtr>& parameters,
                                                     const std::vector<std::string>& states,
                                                     const WrittenCheckpoint& checkpoint) {
  std::mt19937 engine(static_cast<unsigned>(checkpoint.seed * 10 + checkpoint.shard_ranks));
  std::vector<std::vector<Piece>> pieces(checkpoint.world_size);
  for (const std::string& state : states) {
    for (const ParameterPtr& parameter : parameters) {
      const at::Tensor values = state_values(state, *parameter, checkpoint.seed);
      const int parts = 2 * checkpoint.shard_ranks;
      const auto boundaries = random_boundaries(parameter->numel(), parts, engine);
      for (int part = 0; part < parts; ++part) {
        const int rank = part % checkpoint.shard_ranks;
        const at::Tensor piece = values.slice(0, boundaries[part], boundaries[part + 1]);
        // An empty piece starts where another does, and is left out of the file.
        pieces[rank].push_back({state, *parameter, boundaries[part], piece});
      }
    }
  }
  return pieces;
}

// Writes the checkpoint as all ranks of the world do. Returns what rank 0 reports.
inline CheckpointDone write_checkpoint(const RunPaths& paths,
                                       const std::vector<ParameterPtr>& parameters,
                                       const WrittenCheckpoint& checkpoint) {
  const auto world = simulated_world(checkpoint.world_size);
  const bool is_full = checkpoint.state_dict == StateDict::kFull;
  auto weights = random_pieces(parameters, {kWeights}, checkpoint);
  auto optimizer = random_pieces(parameters, {"exp_avg", "exp_avg_sq"}, checkpoint);
  const auto backend = make_backend(at::kCPU);
  std::deque<CheckpointWriter> writers;
  for (const auto& group : world) {
    writers.emplace_back(paths, checkpoint.step, *group, checkpoint.shard_ranks, *backend);
  }
  if (is_full) {
    const auto full = std::make_shared<FullWeightsWriter>(
        writers[0].folder(), parameters, at::kFloat,
        ModelFiles{.max_file_bytes = checkpoint.max_file_bytes});
    for (const ParameterPtr& parameter : parameters) {
      full->write(*parameter,
                  state_values(kWeights, *parameter, checkpoint.seed).view(parameter->shape()),
                  writers[0].thread());
    }
    writers[0].add_files([full] { return full->finish(); });
  }
  for (int rank = 0; rank < checkpoint.world_size; ++rank) {
    if (rank == checkpoint.rank_without_pieces) weights[rank].clear(), optimizer[rank].clear();
    if (!is_full) writers[rank].write_pieces(kWeights, weights[rank]);
    writers[rank].write_pieces(kOptimizer, optimizer[rank]);
  }
  TrainerState state;
  state.state_dict = checkpoint.state_dict;
  state.sequences = checkpoint.seed;
  state.validation_loss = checkpoint.validation_loss;
  for (CheckpointWriter& writer : writers) writer.finish_later(state, checkpoint.keep);
  for (int rank = checkpoint.world_size; rank-- > 0;) writers[rank].advance(/*waits=*/true);
  return writers[0].done();
}

// The newest checkpoint with undamaged contents.
inline std::optional<std::filesystem::path> newest_checkpoint(const RunPaths& paths) {
  for (const auto& folder : checkpoints_newest_first(paths)) {
    try {
      check_contents(folder, read_trainer_state(folder), 0, 1);
      return folder;
    } catch (const ConfigError&) {  // damaged, so an older one is tried
    }
  }
  return std::nullopt;
}

// Reads all values as each of `world_size` ranks would, in even shares, and checks them.
inline void check_checkpoint(const std::filesystem::path& folder,
                             const std::vector<ParameterPtr>& parameters, int world_size) {
  const CheckpointReader reader(folder);
  const int64_t seed = reader.state().sequences;
  for (const std::string& state : kStates) {
    for (const ParameterPtr& parameter : parameters) {
      const at::Tensor expected = state_values(state, *parameter, seed);
      const int64_t count = parameter->numel();
      const int64_t share = (count + world_size - 1) / world_size;
      for (int rank = 0; rank < world_size; ++rank) {
        const int64_t begin = std::min(count, rank * share);
        const at::Tensor part = expected.slice(0, begin, std::min(count, begin + share));
        const at::Tensor out = at::full_like(part, -1);
        reader.read(state, *parameter, begin, out);
        const bool is_equal = out.equal(part);
        CAPTURE(state, parameter->tensors().front().name, begin);
        CHECK(is_equal);
      }
    }
  }
}

// A run's folder, and its model.
struct CheckpointedRun {
  CheckpointDone write(const WrittenCheckpoint& checkpoint) const {
    return write_checkpoint(paths, parameters, checkpoint);
  }
  void check(int64_t step, int world_size) const {
    check_checkpoint(paths.checkpoint(step), parameters, world_size);
  }
  std::vector<std::string> names() const { return names_in(paths.checkpoints()); }

  TemporaryFolder folder;
  RunPaths paths{folder.path()};
  std::vector<ParameterPtr> parameters = test_parameters();
};

}  // namespace fsdp
