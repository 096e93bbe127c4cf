#include "runner/sweep/run_folder.h"

#include <catch2/catch.hpp>

#include "tests/temporary_folder.h"

using namespace fsdp;

TEST_CASE("checkpoints are set aside also when the folder of their attempt was deleted") {
  const TemporaryFolder folder;
  const RunPaths paths(folder / "run");
  std::filesystem::create_directories(paths.checkpoint(4));
  RunRecord record;
  record.status = RunStatus::kFinished;
  record.attempt = 1;
  set_checkpoints_aside(paths, record);
  CHECK_FALSE(std::filesystem::exists(paths.checkpoints()));
  CHECK(std::filesystem::exists(paths.attempt(1) / "checkpoints/step-4"));
}
