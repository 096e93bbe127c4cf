// writer_process FOLDER SEED: writes checkpoints into the run's folder until it is killed. It
// writes each step twice and prints the seed of each complete checkpoint. See
// killed_writer_test.cpp.
#include <iostream>

#include "tests/trainer/checkpoint/written_checkpoint.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  using namespace fsdp;
  const RunPaths paths{argv[1]};
  const auto parameters = test_parameters(100'000);
  for (int64_t seed = std::stoll(argv[2]);; ++seed) {
    const int64_t step = seed / 2;
    write_checkpoint(paths, parameters,
                     {.step = step,
                      .world_size = 2,
                      .shard_ranks = 2,
                      .state_dict = step % 2 == 0 ? StateDict::kFull : StateDict::kSharded,
                      .seed = seed,
                      .keep = 2,
                      .max_file_bytes = 100'000});
    std::cout << seed << std::endl;
  }
}
