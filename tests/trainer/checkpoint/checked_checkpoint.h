#pragma once

#include <catch2/catch.hpp>

#include "base/text/config_error.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/checkpoint/written_checkpoint.h"
#include "trainer/checkpoint/checkpoint_folders.h"
#include "trainer/checkpoint/checkpoint_reader.h"

namespace fsdp {

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

}  // namespace fsdp
