#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "tests/contract/input_fixtures.h"
#include "tests/trainer/checkpoint/checked_checkpoint.h"
#include "trainer/checkpoint/checkpoint_folders.h"

namespace fsdp {
namespace {

// Runs writer_process in a run's folder.
class WriterProcess {
 public:
  WriterProcess(const RunPaths& paths, int64_t seed) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    std::string program = FSDP_WRITER_PROCESS;
    std::string folder = paths.folder();
    std::string first = std::to_string(seed);
    char* arguments[] = {program.data(), folder.data(), first.data(), nullptr};
    const int error =
        posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
    REQUIRE(error == 0);
  }
  ~WriterProcess() {
    kill();
    close(output_);
  }

  // The seed of the next checkpoint that the process reports; nullopt if it has ended.
  std::optional<int64_t> next_seed() {
    std::string line;
    for (char c; read(output_, &c, 1) == 1;) {
      if (c == '\n') return std::stoll(line);
      line += c;
    }
    return std::nullopt;
  }

  void kill() {
    if (process_ == 0) return;
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
  int output_ = -1;
};

// Lets the process write two checkpoints and kills it at a random moment of the next ones. Returns
// the last seed that it reported.
int64_t write_until_killed(const RunPaths& paths, int64_t first_seed, std::mt19937& engine) {
  WriterProcess writer(paths, first_seed);
  auto seed = writer.next_seed();
  REQUIRE(seed == first_seed);
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE((seed = writer.next_seed()));
  const auto one_checkpoint = std::chrono::steady_clock::now() - begin;
  const double checkpoints = std::uniform_real_distribution(0.0, 4.0)(engine);
  std::this_thread::sleep_for(one_checkpoint * checkpoints);  // up to four checkpoints later
  writer.kill();
  while (const auto later = writer.next_seed()) seed = later;
  return *seed;
}

TEST_CASE("a writer killed at any moment leaves a newest checkpoint that is whole") {
  const char* const count = std::getenv("FSDP_TEST_KILLS");
  const int kills = count ? std::stoi(count) : 10;
  const TemporaryFolder folder;
  const RunPaths paths(folder.path());
  const auto parameters = test_parameters(100'000);
  std::mt19937 engine(std::random_device{}());
  int interrupted = 0;
  for (int64_t i = 0, seed = 2; i < kills; ++i) {
    const int64_t reported = write_until_killed(paths, seed, engine);
    CAPTURE(i, reported, names_in(paths.checkpoints()));
    const auto newest = newest_checkpoint(paths);
    REQUIRE(newest);
    check_checkpoint(*newest, parameters, 1 + static_cast<int>(i % 3));
    const int64_t found = CheckpointReader(*newest).state().sequences;
    CHECK(found >= reported);
    CHECK(found <= reported + 1);

    const auto all = names_in(paths.checkpoints());
    remove_partial_checkpoints(paths);
    for (const std::string& name : names_in(paths.checkpoints())) {
      CHECK(name.find('.') == std::string::npos);
      check_checkpoint(paths.checkpoints() / name, parameters, 1);
    }
    interrupted += names_in(paths.checkpoints()) != all;
    seed = found + 1;
  }
  if (count) WARN(interrupted << " of " << kills << " kills left an unfinished folder");
}

}  // namespace
}  // namespace fsdp
