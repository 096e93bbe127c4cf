#include <array>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>

#include "tests/contract/input_fixtures.h"
#include "tests/trainer/checkpoint/written_checkpoint.h"

namespace fsdp::killed_writer_test {

// The test below starts this in a process of its own. Writes checkpoints into the run's folder
// until the process is killed. Writes each step twice and prints the seed of each complete
// checkpoint.
TEST_CASE("a writer that goes on until it is killed", "[.writer][no_test]") {
  const RunPaths paths{std::getenv("WRITER_FOLDER")};
  const auto parameters = test_parameters(100'000);
  for (int64_t seed = std::stoll(std::getenv("WRITER_SEED"));; ++seed) {
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

// Starts a writer that is killed before its call number `call` that changes files. Returns the
// last seed that it reported; `otherwise` if it reported none.
int64_t write_until_killed(const RunPaths& paths, int64_t first_seed, int64_t call,
                           int64_t otherwise) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  const auto library = program.parent_path() / "tests/fakes/libkill_at_call.so";
  const std::string command =
      "WRITER_FOLDER='" + paths.folder().string() + "' WRITER_SEED=" + std::to_string(first_seed) +
      " KILL_AT_CALL=" + std::to_string(call) + " LD_PRELOAD='" + library.string() +
      "' ASAN_OPTIONS=verify_asan_link_order=0 exec '" + program.string() + "' '[writer]'";
  std::FILE* const output = popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  int64_t seed = otherwise;
  for (std::array<char, 100> line; std::fgets(line.data(), line.size(), output) != nullptr;) {
    if (std::isdigit(line[0]) != 0) seed = std::stoll(line.data());
  }
  CHECK(pclose(output) == SIGKILL);
  return seed;
}

int64_t number_from_environment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::stoll(text) : otherwise;
}

TEST_CASE("a writer killed before any change of files leaves a newest checkpoint that is whole") {
  constexpr int64_t kCallsOfFirst = 40;  // at most, of a checkpoint
  constexpr int64_t kCallsOfOthers = 160;
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  const auto parameters = test_parameters(100'000);
  std::mt19937 engine(static_cast<unsigned>(number_from_environment("FSDP_TEST_SEED", 1)));
  std::uniform_int_distribution<int64_t> calls(1, kCallsOfOthers);
  int64_t found = 1;
  for (int64_t i = 0; i < number_from_environment("FSDP_TEST_KILLS", 20); ++i) {
    const int64_t call = i == 0 ? kCallsOfFirst + kCallsOfOthers : calls(engine);
    const int64_t reported = write_until_killed(paths, found + 1, call, found);
    CAPTURE(i, call, reported, names_in(paths.checkpoints()));
    const auto newest = newest_checkpoint(paths);
    REQUIRE(newest);
    check_checkpoint(*newest, parameters, 1 + static_cast<int>(i % 3));
    found = CheckpointReader(*newest).state().sequences;
    CHECK(found >= reported);
    CHECK(found <= reported + 1);

    remove_partial_checkpoints(paths);
    for (const std::string& name : names_in(paths.checkpoints())) {
      CHECK(name.find('.') == std::string::npos);
      check_checkpoint(paths.checkpoints() / name, parameters, 1);
    }
  }
}

}  // namespace fsdp::killed_writer_test
