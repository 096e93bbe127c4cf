#include <catch2/catch.hpp>
#include <fstream>

#include "runner/run/attempt_files.h"
#include "runner/store/results_unavailable.h"
#include "tests/temporary_folder.h"

using namespace fsdp;

TEST_CASE("checkpoints are set aside also when the folder of their attempt was deleted") {
  const TemporaryFolder folder;
  const RunPaths paths(folder / "run");
  std::filesystem::create_directories(paths.checkpoint(4));
  set_checkpoints_aside(paths, 1);
  CHECK_FALSE(std::filesystem::exists(paths.checkpoints()));
  CHECK(std::filesystem::exists(paths.attempt(1) / "checkpoints/step-4"));
  SECTION("once: those of a later attempt stay") {
    std::filesystem::create_directories(paths.checkpoint(8));
    set_checkpoints_aside(paths, 1);
    CHECK(std::filesystem::exists(paths.checkpoint(8)));
  }
}

TEST_CASE("checkpoints that cannot be set aside are waited for, and that there are none is well") {
  const TemporaryFolder folder;
  const RunPaths paths(folder / "run");
  set_checkpoints_aside(paths, 1);
  std::filesystem::create_directories(paths.checkpoint(4));
  std::ofstream(paths.attempt(1)) << "not a folder";
  CHECK_THROWS_AS(set_checkpoints_aside(paths, 1), ResultsUnavailable);
  CHECK(std::filesystem::exists(paths.checkpoint(4)));
}

TEST_CASE("an attempt's folder that is there already is nobody's to claim") {
  const TemporaryFolder folder;
  const RunPaths paths(folder / "run");
  std::filesystem::create_directories(paths.attempt(2));
  CHECK(claim_attempt(paths, 1) == 1);
  CHECK(claim_attempt(paths, 1) == 3);
}

TEST_CASE("nothing is made in the place of a results folder that was moved away") {
  const TemporaryFolder folder;
  const RunPaths paths(folder / "results/runs/lab/run");
  CHECK_THROWS_AS(claim_attempt(paths, 1), ResultsUnavailable);
  CHECK_THROWS_AS(write_spec(paths, RunSpec{}), ResultsUnavailable);
  CHECK_FALSE(std::filesystem::exists(folder / "results"));
  std::filesystem::create_directory(folder / "results");
  CHECK(claim_attempt(paths, 1) == 1);
  write_spec(paths, RunSpec{});
  CHECK(std::filesystem::exists(paths.spec()));
}
