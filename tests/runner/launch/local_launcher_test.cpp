#include "runner/run/local_launcher.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/text/config_error.h"
#include "tests/temporary_folder.h"

using namespace fsdp;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

constexpr Patience kShort{.after_failure = 200ms, .after_terminate = 200ms};
constexpr Patience kEndless{.after_failure = 1h, .after_terminate = 1h};

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Ranks find the folder in $TEST_FOLDER, and write to their logs.
class Folder : public TemporaryFolder {
 public:
  Folder() { setenv("TEST_FOLDER", path().c_str(), 1); }

  std::string text(const std::string& name) const { return text_of(path() / name); }
  // Waits until the file holds a whole line.
  std::string line(const std::string& name) const {
    for (;;) {
      const std::string written = text(name);
      const size_t end = written.find('\n');
      if (end != std::string::npos) return written.substr(0, end);
      std::this_thread::sleep_for(2ms);
    }
  }
  pid_t process_id(const std::string& name) const { return std::stoi(line(name)); }
};

// Every rank runs `script` in a shell.
LaunchRequest shell(const Folder& folder, int ranks, const std::string& script) {
  LaunchRequest request{.id = 7, .trainer = "/bin/sh", .arguments = {"-c", script}};
  for (int rank = 0; rank < ranks; ++rank) {
    request.rank_logs.push_back(folder / ("rank" + std::to_string(rank) + ".log"));
  }
  return request;
}

bool has_room(const LocalLauncher& launcher, const LaunchRequest& request) {
  return launcher.has_room(request.rank_logs.size(), request.uses_gpus);
}

AttemptEnd wait_for_one(LocalLauncher& launcher) {
  for (;;) {
    const std::vector<AttemptEnd> results = launcher.wait(1h);
    if (!results.empty()) return results.front();
  }
}

AttemptEnd run(const LaunchRequest& request, Patience patience = kEndless) {
  LocalLauncher launcher({}, patience);
  launcher.start(request);
  return wait_for_one(launcher);
}

// True if the process has ended. A process that init has not yet reaped has ended, too.
bool is_gone(pid_t process) {
  const std::string stat = text_of("/proc/" + std::to_string(process) + "/stat");
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

bool gone_soon(pid_t process) {
  for (const auto deadline = std::chrono::steady_clock::now() + 2min;
       std::chrono::steady_clock::now() < deadline;) {
    if (is_gone(process)) return true;
    std::this_thread::sleep_for(2ms);
  }
  return false;
}

// Makes a shell run until a signal.
const std::string kHang = "while :; do sleep 1000; done";
const std::string kWriteProcessId = "echo $$ > $TEST_FOLDER/process$RANK; ";
// A descendant that left its process group and session.
const std::string kSpawn =
    "setsid sh -c 'echo $$ > $TEST_FOLDER/grandchild; exec sleep 1000' & "
    "until [ -s $TEST_FOLDER/grandchild ]; do sleep 0.01; done; ";

}  // namespace

TEST_CASE("what another launcher told the runner never reaches its ranks") {
  const Folder folder;
  const std::vector<std::string> strays = {"TORCHELASTIC_USE_AGENT_STORE",
                                           "TORCHELASTIC_RESTART_COUNT",
                                           "GROUP_RANK",
                                           "ROLE_RANK",
                                           "PET_NPROC_PER_NODE",
                                           "OMPI_COMM_WORLD_RANK",
                                           "PMI_RANK",
                                           "TORCH_DISTRIBUTED_DEBUG"};
  for (const std::string& name : strays) setenv(name.c_str(), "stray", 1);
  setenv("NCCL_DEBUG", "INFO", 1);
  run(shell(folder, 1, "env > $TEST_FOLDER/environment"));
  for (const std::string& name : strays) unsetenv(name.c_str());
  unsetenv("NCCL_DEBUG");
  const std::string environment = '\n' + folder.text("environment");
  for (const std::string& name : strays) CHECK_THAT(environment, !Contains('\n' + name + '='));
  CHECK_THAT(environment, Contains("\nNCCL_DEBUG=INFO\n"));  // the user's own
}

TEST_CASE("ranks get the variables of their run, over the runner's and below the launcher's") {
  const Folder folder;
  setenv("NCCL_DEBUG", "WARN", 1);
  LaunchRequest request = shell(folder, 1, "env > $TEST_FOLDER/environment");
  request.environment = {"NCCL_DEBUG=INFO", "EMPTY=", "WORLD_SIZE=7"};
  run(request);
  unsetenv("NCCL_DEBUG");
  const std::string environment = '\n' + folder.text("environment");
  CHECK_THAT(environment, Contains("\nNCCL_DEBUG=INFO\n") && Contains("\nEMPTY=\n") &&
                              Contains("\nWORLD_SIZE=1\n") && !Contains("WARN"));
}

TEST_CASE("ranks get the environment that torchrun would give them") {
  const Folder folder;
  setenv("RANK", "99", 1);
  const AttemptEnd result = run(
      shell(folder, 2,
            "cat; echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR "
            "[$CUDA_VISIBLE_DEVICES]; echo $MASTER_PORT > $TEST_FOLDER/port$RANK; echo error >&2"));
  unsetenv("RANK");
  CHECK(result.run == 7);
  CHECK(result.outcome == LaunchOutcome::kExited);
  CHECK(result.reason.empty());
  CHECK(folder.text("rank0.log") == "0 0 2 2 127.0.0.1 []\nerror\n");
  CHECK(folder.text("rank1.log") == "1 1 2 2 127.0.0.1 []\nerror\n");
  CHECK(folder.text("port0") == folder.text("port1"));
  CHECK(std::stoi(folder.text("port0")) > 0);
}

TEST_CASE("ranks see the GPUs of their launch, launches side by side different ones") {
  const Folder folder;
  const std::vector<Gpu> gpus{{.index = 0}, {.index = 2}, {.index = 3}};
  LocalLauncher launcher({.gpus = gpus, .max_parallel = 2}, kEndless);
  LaunchRequest request = shell(folder, 2, "echo $CUDA_VISIBLE_DEVICES; " + kHang);
  request.uses_gpus = true;
  launcher.start(request);
  CHECK_FALSE(has_room(launcher, request));  // one GPU is left
  request.rank_logs = {folder / "other.log"};
  REQUIRE(has_room(launcher, request));
  launcher.start(request);
  CHECK_FALSE(has_room(launcher, request));
  CHECK(folder.line("rank0.log") == "0,2");
  CHECK(folder.line("rank1.log") == "0,2");
  CHECK(folder.line("other.log") == "3");
}

TEST_CASE("launches run one at a time unless told otherwise") {
  const Folder folder;
  const LaunchRequest two_ranks = shell(folder, 2, kHang);
  LocalLauncher one_at_a_time({.cpu_ranks = 8}, kShort);
  one_at_a_time.start(two_ranks);
  CHECK_FALSE(has_room(one_at_a_time, two_ranks));

  LocalLauncher packed({.cpu_ranks = 4, .max_parallel = 3}, kShort);
  CHECK(has_room(packed, shell(folder, 9, kHang)));  // wider than the host: runs alone
  packed.start(two_ranks);
  CHECK_FALSE(has_room(packed, shell(folder, 3, kHang)));
  CHECK(has_room(packed, two_ranks));
}

TEST_CASE("ranks start with default signal handling whatever the runner's is") {
  const Folder folder;
  sigset_t blocked, previous;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &previous);
  signal(SIGINT, SIG_IGN);
  run(shell(folder, 1, "grep -E 'Sig(Blk|Ign)' /proc/self/status"));
  signal(SIGINT, SIG_DFL);
  sigprocmask(SIG_SETMASK, &previous, nullptr);
  CHECK(folder.text("rank0.log") == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("a rank killed by a signal ends the launch, and no process is left") {
  const Folder folder;
  const AttemptEnd result = run(shell(folder, 4,
                                      kWriteProcessId +
                                          "if [ $RANK = 2 ]; then kill -9 $$; fi; "
                                          "if [ $RANK = 1 ]; then trap '' TERM; fi; " +
                                          kHang),
                                kShort);
  CHECK(result.outcome == LaunchOutcome::kFailed);
  CHECK(result.reason == "rank 2 killed by signal 9 (memory may have run out: see dmesg)");
  CHECK(result.first_rank == 2);
  for (const char* name : {"process0", "process1", "process2", "process3"}) {
    CHECK(is_gone(folder.process_id(name)));
  }
}

TEST_CASE("the first rank that ends badly is the reason, not those that follow") {
  const Folder folder;
  const AttemptEnd result = run(shell(
      folder, 2,
      kWriteProcessId + "if [ $RANK = 0 ]; then exit 7; fi; "
                        "until [ -s $TEST_FOLDER/process0 ]; do sleep 0.01; done; "
                        "while kill -0 $(cat $TEST_FOLDER/process0); do sleep 0.01; done; exit 8"));
  CHECK(result.outcome == LaunchOutcome::kFailed);
  CHECK(result.reason == "rank 0 exited with status 7");
}

TEST_CASE("a failed communication gives way to its cause") {
  const Folder folder;
  const std::string after_rank_0 =
      kWriteProcessId +
      "if [ $RANK = 0 ]; then exit 4; fi; "
      "until [ -s $TEST_FOLDER/process0 ]; do sleep 0.01; done; "
      "while kill -0 $(cat $TEST_FOLDER/process0); do sleep 0.01; done; ";
  SECTION("out of memory") {
    const AttemptEnd result = run(shell(folder, 2, after_rank_0 + "exit 3"));
    CHECK(result.outcome == LaunchOutcome::kOutOfMemory);
    CHECK(result.reason == "rank 1 ran out of memory");
  }
  SECTION("a signal") {
    const AttemptEnd result = run(shell(folder, 2, after_rank_0 + "kill -9 $$"));
    CHECK(result.outcome == LaunchOutcome::kFailed);
    CHECK(result.reason == "rank 1 killed by signal 9 (memory may have run out: see dmesg)");
  }
  SECTION("nothing else") {
    const AttemptEnd result = run(shell(folder, 2, after_rank_0 + "exit 4"));
    CHECK(result.reason == "rank 0 exited with status 4");
  }
}

TEST_CASE("out of memory of one rank ends the others") {
  const Folder folder;
  const AttemptEnd result =
      run(shell(folder, 2, "if [ $RANK = 1 ]; then exit 3; fi; " + kHang), kShort);
  CHECK(result.outcome == LaunchOutcome::kOutOfMemory);
  CHECK(result.first_rank == 1);
}

TEST_CASE("a time limit ends a launch") {
  const Folder folder;
  LaunchRequest request = shell(folder, 1, kHang);
  request.time_limit = 0s;
  const AttemptEnd result = run(request);
  CHECK(result.outcome == LaunchOutcome::kTimeLimit);
  CHECK(result.reason == "stopped at its time limit of 0 s");
}

TEST_CASE("stop_all asks, and called again kills") {
  const Folder folder;
  LocalLauncher launcher({}, kEndless);
  launcher.start(shell(
      folder, 1, "trap 'echo told' TERM; " + kWriteProcessId + "while :; do sleep 0.01; done"));
  const pid_t rank = folder.process_id("process0");
  launcher.stop_all();
  while (folder.text("rank0.log").find("told") == std::string::npos) {
    REQUIRE(launcher.wait(2ms).empty());
  }
  CHECK_FALSE(is_gone(rank));
  launcher.stop_all();
  const AttemptEnd result = wait_for_one(launcher);
  CHECK(result.outcome == LaunchOutcome::kInterrupted);
  CHECK(result.reason == "asked to stop");
  CHECK(is_gone(rank));
}

TEST_CASE("a launch may have more time to stop than others") {
  const Folder folder;
  LocalLauncher launcher({}, {.after_failure = 1h, .after_terminate = 1ms});
  LaunchRequest request = shell(folder, 1,
                                // The shell may say that the signal ended its `sleep`, too.
                                "exec 2>/dev/null; trap 'echo told; until [ -e $TEST_FOLDER/go ]; "
                                "do sleep 0.01; done; echo saved; exit 130' TERM; " +
                                    kWriteProcessId + "while :; do sleep 0.01; done");
  request.time_to_stop = std::chrono::hours(1);
  launcher.start(request);
  folder.process_id("process0");
  launcher.stop_all();
  CHECK(folder.line("rank0.log") == "told");
  for (int i = 0; i < 20; ++i) CHECK(launcher.wait(2ms).empty());  // longer than others have
  folder.write("go", "");
  CHECK(wait_for_one(launcher).outcome == LaunchOutcome::kInterrupted);
  CHECK_THAT(folder.text("rank0.log"), Contains("saved\n"));
}

TEST_CASE("a launch with more time to stop does not have it once a rank has failed") {
  const Folder folder;
  LocalLauncher launcher({}, kShort);
  LaunchRequest request = shell(folder, 2,
                                "trap '[ $RANK = 0 ] || kill -9 $$' TERM; " + kWriteProcessId +
                                    "[ $RANK = $FAILS ] && exit 7; while :; do sleep 0.01; done");
  request.time_to_stop = std::chrono::hours(1);
  SECTION("by itself") {
    setenv("FAILS", "1", 1);
    launcher.start(request);
    CHECK(wait_for_one(launcher).reason == "rank 1 exited with status 7");
  }
  SECTION("while it stops") {
    setenv("FAILS", "none", 1);
    launcher.start(request);
    folder.process_id("process0");
    folder.process_id("process1");
    launcher.stop_all();
    CHECK(wait_for_one(launcher).outcome == LaunchOutcome::kInterrupted);
  }
  CHECK(is_gone(folder.process_id("process0")));
}

TEST_CASE("a launch that ended well leaves nothing that it started") {
  const Folder folder;
  const AttemptEnd result = run(shell(folder, 1, kSpawn + "exit 0"));
  CHECK(result.outcome == LaunchOutcome::kExited);
  CHECK(is_gone(folder.process_id("grandchild")));
}

TEST_CASE("everything dies with the runner, even when it is killed by signal 9") {
  const Folder folder;
  const pid_t runner = fork();
  if (runner == 0) {
    LocalLauncher launcher({.cpu_ranks = 4, .max_parallel = 2}, kEndless);
    launcher.start(shell(folder, 2, "trap '' TERM HUP; " + kWriteProcessId + kHang));
    launcher.start(shell(folder, 1, kSpawn + kHang));
    for (;;) pause();
  }
  const std::vector<pid_t> processes{folder.process_id("process0"), folder.process_id("process1"),
                                     folder.process_id("grandchild")};
  kill(runner, SIGKILL);
  waitpid(runner, nullptr, 0);
  for (const pid_t process : processes) CHECK(gone_soon(process));
}

TEST_CASE("ranks die with their supervisor, and the launch is over") {
  const Folder folder;
  LocalLauncher launcher({}, kEndless);
  launcher.start(
      shell(folder, 1, kWriteProcessId + "echo $PPID > $TEST_FOLDER/supervisor; " + kHang));
  const pid_t rank = folder.process_id("process0");
  kill(folder.process_id("supervisor"), SIGKILL);
  CHECK(gone_soon(rank));  // without the runner, which may be gone, too
  const AttemptEnd result = wait_for_one(launcher);
  CHECK(result.outcome == LaunchOutcome::kFailed);
  CHECK(result.reason == "the run's supervisor was killed");
}

TEST_CASE("a program or log that is not there is an error") {
  const Folder folder;
  LocalLauncher launcher({}, kEndless);
  LaunchRequest request = shell(folder, 2, "true");
  request.trainer = folder / "fsdp-train";
  CHECK_THROWS_WITH(launcher.start(request),
                    Contains("cannot start rank ") && Contains("fsdp-train: No such file"));
  request.trainer = "/bin/sh";
  request.rank_logs[1] = folder / "missing/rank1.log";
  CHECK_THROWS_WITH(launcher.start(request),
                    Contains("cannot start rank 1: ") && Contains("missing/rank1.log"));
  CHECK(launcher.wait(0ms).empty());
}
