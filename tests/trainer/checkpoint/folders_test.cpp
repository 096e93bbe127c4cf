#include "tests/contract/input_fixtures.h"
#include "tests/trainer/checkpoint/written_checkpoint.h"

namespace fsdp::folders_test {

using Names = std::vector<std::string>;

struct Run : CheckpointedRun {
  void rename(const std::string& from, const std::string& to) const {
    std::filesystem::rename(paths.checkpoints() / from, paths.checkpoints() / to);
  }
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
  for (const int64_t step : {9, 10, 2}) run.write({.step = step});
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
  run.write({.step = 1, .keep = 2, .validation_loss = 3.0});
  run.write({.step = 2, .keep = 2, .validation_loss = 1.0});
  CHECK(run.names() == Names{"step-1", "step-2"});
  run.write({.step = 3, .keep = 2, .validation_loss = 2.0});
  run.write({.step = 4, .keep = 2});
  run.write({.step = 5, .keep = 2, .validation_loss = 1.5});
  CHECK(run.names() == Names{"step-2", "step-4", "step-5"});
  run.write({.step = 6, .keep = 2, .validation_loss = 0.5});
  CHECK(run.names() == Names{"step-5", "step-6"});
  run.write({.step = 7});
  CHECK(run.names() == Names{"step-5", "step-6", "step-7"});
  run.write({.step = 8, .keep = 1});
  CHECK(run.names() == Names{"step-6", "step-8"});
}

TEST_CASE("a checkpoint deleted those of more steps") {
  const Run run;
  for (const int64_t step : {2, 10, 20}) run.write({.step = step});
  run.write({.step = 5, .keep = 1});
  CHECK(run.names() == Names{"step-10", "step-20", "step-5"});
  run.write({.step = 21, .keep = 1});
  CHECK(run.names() == Names{"step-21"});
}

TEST_CASE("a step that exists is replaced") {
  const Run run;
  run.write({.step = 4, .seed = 1});
  std::ofstream(run.paths.checkpoint(4) / "stale") << "of the first";
  run.write({.step = 4, .seed = 2, .keep = 1});
  CHECK(run.names() == Names{"step-4"});
  CHECK(CheckpointReader(run.paths.checkpoint(4)).state().sequences == 2);
  CHECK(!std::filesystem::exists(run.paths.checkpoint(4) / "stale"));
  run.check(4, 2);
}

TEST_CASE("a writer stopped while it replaced a step leaves the earlier one to be found") {
  const Run run;
  run.write({.step = 4, .seed = 1});
  run.rename("step-4", "step-4.replaced");
  const auto found = newest_checkpoint(run.paths);
  REQUIRE(found == run.paths.checkpoints() / "step-4.replaced");
  check_checkpoint(*found, run.parameters, 1);

  SECTION("which then has its name again") {
    remove_partial_checkpoints(run.paths);
    CHECK(run.names() == Names{"step-4"});
    run.check(4, 1);
  }
  SECTION("until the step is written") {
    run.write({.step = 4, .seed = 2});
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
  run.write({.step = 4});
  CHECK(names_in(run.paths.checkpoint(4)) ==
        Names{"optimizer.rank0.safetensors", "trainer.json", "weights.rank0.safetensors"});
}

}  // namespace fsdp::folders_test
