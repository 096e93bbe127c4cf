#include "formats/weights/weights.h"
#include "tests/contract/input_fixtures.h"
#include "tests/trainer/checkpoint/written_checkpoint.h"
#include "trainer/checkpoint/checksum.h"

namespace fsdp::round_trip_test {

using Catch::Contains;
using Names = std::vector<std::string>;

TEST_CASE("what any number of ranks wrote in any pieces, any number of ranks reads") {
  const int writers = GENERATE(1, 2, 3, 4);
  const StateDict state_dict = GENERATE(StateDict::kSharded, StateDict::kFull);
  for (int64_t seed = 1; seed <= 5; ++seed) {
    const CheckpointedRun run;
    run.write({.step = 3,
               .world_size = writers,
               .shard_ranks = writers,
               .state_dict = state_dict,
               .seed = seed});
    for (int readers = 1; readers <= 4; ++readers) {
      CAPTURE(writers, readers, seed, state_dict);
      run.check(3, readers);
    }
  }
}

TEST_CASE("replicated state is written once") {
  const CheckpointedRun run;
  run.write({.world_size = 4, .shard_ranks = 2});
  CHECK(names_in(run.paths.checkpoint(1)) ==
        Names{"optimizer.rank0.safetensors", "optimizer.rank1.safetensors", "trainer.json",
              "weights.rank0.safetensors", "weights.rank1.safetensors"});
  run.check(1, 3);
}

TEST_CASE("a read of any range converts to another dtype when asked") {
  const CheckpointedRun run;
  run.write({.world_size = 3, .shard_ranks = 3});
  const CheckpointReader reader(run.paths.checkpoint(1));
  const Parameter& parameter = *run.parameters[3];
  const at::Tensor expected = state_values("exp_avg", parameter, 0);
  for (int64_t begin = 0; begin < parameter.numel(); begin += 83) {
    const int64_t count = std::min<int64_t>(parameter.numel() - begin, begin % 300);
    const at::Tensor out = at::empty({count});
    reader.read("exp_avg", parameter, begin, out);
    CHECK(out.equal(expected.narrow(0, begin, count)));
    const at::Tensor converted = at::empty({count}, at::kBFloat16);
    reader.read("exp_avg", parameter, begin, converted);
    CHECK(converted.equal(expected.narrow(0, begin, count).to(at::kBFloat16)));
  }
}

TEST_CASE("the trainer's state comes back as it was, and finish tells what was written") {
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  const auto world = simulated_world(1);
  const auto backend = make_backend(at::kCPU);
  CheckpointWriter writer(paths, 12, *world[0], 1, *backend);
  writer.write_pieces(kOptimizer, {});
  TrainerState state;
  state.sequences = 480;
  state.state_dict = StateDict::kSharded;
  state.optimizer = OptimizerKind::kAdadelta;
  state.optimizer_steps = 11;
  state.validation_loss = 0.1 + 0.2;
  state.best_validation_loss = 1.0 / 3;
  state.gradient_scaler = GradientScalerState{.scale = 65536, .steps_since_growth = 7};
  state.basis = Basis{.keys = {"data.format=llama3", "data.template.with_input=\"a\\n{input}\""},
                      .data = "0123",
                      .frozen_weights = "45"};
  writer.finish_later(state, std::nullopt);
  REQUIRE(writer.advance(/*waits=*/true));
  const CheckpointDone done = writer.done();

  const TrainerState read = CheckpointReader(paths.checkpoint(12)).state();
  state.step = 12;
  const auto file = paths.checkpoint(12) / "optimizer.rank0.safetensors";
  state.files = {{.name = file.filename(),
                  .size_bytes = static_cast<int64_t>(std::filesystem::file_size(file)),
                  .xxh3_128 = checksum_of_file(file)}};
  CHECK(read == state);
  CHECK(done.step == 12);
  CHECK(done.path == "checkpoints/step-12");
  CHECK(done.size_bytes ==
        state.files[0].size_bytes + static_cast<int64_t>(std::filesystem::file_size(
                                        paths.checkpoint(12) / "trainer.json")));
  CHECK(done.write_time_ms > 0);
}

TEST_CASE("full weights above the limit are several files and an index") {
  const CheckpointedRun run;
  run.write({.state_dict = StateDict::kFull, .seed = 4, .max_file_bytes = 200});
  CHECK(names_in(run.paths.checkpoint(1)) ==
        Names{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
              "model-00003-of-00003.safetensors", "model.safetensors.index.json",
              "optimizer.rank0.safetensors", "trainer.json"});
  run.check(1, 2);
  // "query" and "key" are one parameter of the model, two tensors of the file.
  const auto tensors = read_weights(run.paths.checkpoint(1));
  CHECK(tensors.at("query").shape == std::vector<int64_t>{3, 4});
  CHECK(tensors.at("key").shape == std::vector<int64_t>{2, 4});
  CHECK(tensors.at("key").dtype == "F32");
}

TEST_CASE("the size of full weights is known before they are written") {
  for (const int64_t max_file_bytes : {int64_t{200}, kMaxFileBytes}) {
    const CheckpointedRun run;
    run.write({.state_dict = StateDict::kFull, .max_file_bytes = max_file_bytes});
    int64_t bytes = 0;
    for (const std::string& name : names_in(run.paths.checkpoint(1))) {
      if (!name.starts_with("model")) continue;
      bytes += static_cast<int64_t>(std::filesystem::file_size(run.paths.checkpoint(1) / name));
    }
    CHECK(full_weights_bytes(run.parameters, at::kFloat, {.max_file_bytes = max_file_bytes}) ==
          bytes);
  }
}

TEST_CASE("weights that were not all written are no complete files") {
  const TemporaryFolder folder;
  const auto parameters = test_parameters();
  const auto backend = make_backend(at::kCPU);
  FullWeightsWriter writer(folder.path(), parameters, at::kFloat);
  WriterThread thread(*backend);
  writer.write(*parameters[0], at::ones({7, 5}), thread);
  CHECK_THROWS_WITH(writer.finish(), Contains("was not written"));
  CHECK_THROWS_WITH(writer.write(*parameters[0], at::ones({7, 5}), thread), Contains("is not due"));
  CHECK_THROWS_WITH(writer.write(*parameters[2], at::ones({2}, at::kHalf), thread),
                    Contains("Half"));
}

}  // namespace fsdp::round_trip_test
