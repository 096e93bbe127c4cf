#include "tests/contract/input_fixtures.h"
#include "tests/trainer/checkpoint/checked_checkpoint.h"
#include "trainer/checkpoint/checkpoint_folders.h"

namespace fsdp {
namespace {

using Names = std::vector<std::string>;

class Run {
 public:
  void write(int64_t step, std::optional<int64_t> keep = std::nullopt,
             std::optional<double> validation_loss = std::nullopt, int64_t seed = 0) const {
    write_checkpoint(
        paths, parameters,
        {.step = step, .seed = seed, .keep = keep, .validation_loss = validation_loss});
  }
  Names names() const { return names_in(paths.checkpoints()); }
  void rename(const std::string& from, const std::string& to) const {
    std::filesystem::rename(paths.checkpoints() / from, paths.checkpoints() / to);
  }

  TemporaryFolder folder;
  RunPaths paths{folder.path()};
  std::vector<ParameterPtr> parameters = test_parameters();
};

TEST_CASE("a run without checkpoints has no newest one") {
  const Run run;
  CHECK(newest_checkpoint(run.paths) == std::nullopt);
  remove_partial_checkpoints(run.paths);
}

TEST_CASE("the folder of a run that went away is not made anew") {
  const Run run;
  const RunPaths gone(run.folder.path() / "results/runs/lab/gone");
  CHECK_THROWS_WITH(create_partial_checkpoint(gone, 3),
                    Catch::Contains("checkpoints") && Catch::Contains("cannot be written"));
  CHECK_FALSE(std::filesystem::exists(run.folder.path() / "results"));
}

TEST_CASE("the newest checkpoint has the most steps and is complete") {
  const Run run;
  for (const int64_t step : {9, 10, 2}) run.write(step);
  CHECK(newest_checkpoint(run.paths) == run.paths.checkpoint(10));
  run.rename("step-10", "step-10.partial");
  std::filesystem::create_directory(run.paths.checkpoints() / "step-11");
  std::filesystem::create_directory(run.paths.checkpoints() / "step-12x");
  std::filesystem::create_directory(run.paths.checkpoints() / "other");
  CHECK(newest_checkpoint(run.paths) == run.paths.checkpoint(9));
  CHECK(run.names() ==
        Names{"other", "step-10.partial", "step-11", "step-12x", "step-2", "step-9"});
  remove_partial_checkpoints(run.paths);
  CHECK(run.names() == Names{"other", "step-11", "step-12x", "step-2", "step-9"});
}

TEST_CASE("as many as asked for stay, and the best") {
  const Run run;
  run.write(1, 2, 3.0);
  run.write(2, 2, 1.0);
  CHECK(run.names() == Names{"step-1", "step-2"});
  run.write(3, 2, 2.0);
  run.write(4, 2);
  run.write(5, 2, 1.5);
  CHECK(run.names() == Names{"step-2", "step-4", "step-5"});
  run.write(6, 2, 0.5);
  CHECK(run.names() == Names{"step-5", "step-6"});
  run.write(7);
  CHECK(run.names() == Names{"step-5", "step-6", "step-7"});
  run.write(8, 1);
  CHECK(run.names() == Names{"step-6", "step-8"});
}

TEST_CASE("the checkpoint just written stays, even with fewer steps than others") {
  const Run run;
  run.write(10);
  run.write(20);
  run.write(5, 1);
  CHECK(run.names() == Names{"step-5"});
}

TEST_CASE("a step that exists is replaced") {
  const Run run;
  run.write(4, std::nullopt, std::nullopt, 1);
  std::ofstream(run.paths.checkpoint(4) / "stale") << "of the first";
  run.write(4, 1, std::nullopt, 2);
  CHECK(run.names() == Names{"step-4"});
  CHECK(CheckpointReader(run.paths.checkpoint(4)).state().sequences == 2);
  CHECK(!std::filesystem::exists(run.paths.checkpoint(4) / "stale"));
  check_checkpoint(run.paths.checkpoint(4), run.parameters, 2);
}

TEST_CASE("a writer stopped while it replaced a step leaves the earlier one to be found") {
  const Run run;
  run.write(4, std::nullopt, std::nullopt, 1);
  run.rename("step-4", "step-4.replaced");
  const auto found = newest_checkpoint(run.paths);
  REQUIRE(found == run.paths.checkpoints() / "step-4.replaced");
  check_checkpoint(*found, run.parameters, 1);

  SECTION("which then has its name again") {
    remove_partial_checkpoints(run.paths);
    CHECK(run.names() == Names{"step-4"});
    check_checkpoint(run.paths.checkpoint(4), run.parameters, 1);
  }
  SECTION("until the step is written") {
    run.write(4, std::nullopt, std::nullopt, 2);
    CHECK(run.names() == Names{"step-4"});
    CHECK(CheckpointReader(run.paths.checkpoint(4)).state().sequences == 2);
  }
  SECTION("unless the new one had its name already") {
    std::filesystem::copy(run.paths.checkpoints() / "step-4.replaced", run.paths.checkpoint(4));
    CHECK(newest_checkpoint(run.paths) == run.paths.checkpoint(4));
    remove_partial_checkpoints(run.paths);
    CHECK(run.names() == Names{"step-4"});
  }
}

TEST_CASE("what a stopped writer left of a step is no part of the next") {
  const Run run;
  const auto partial = run.paths.checkpoints() / "step-4.partial";
  std::filesystem::create_directories(partial);
  std::ofstream(partial / "weights.rank7.safetensors") << "of another world";
  run.write(4);
  CHECK(names_in(run.paths.checkpoint(4)) ==
        Names{"optimizer.rank0.safetensors", "trainer.json", "weights.rank0.safetensors"});
}

}  // namespace
}  // namespace fsdp
