#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>

#include "runner/store/database.h"
#include "tests/runner/store/store_fixture.h"

// Tests with several processes, a limit on the size of files, and a read-only folder.
namespace fsdp {
namespace {

constexpr int64_t kStepsPerTransaction = 100;

// Runs `body` in a child process, which exits with 0 unless it throws or `body` exits otherwise.
pid_t start_process(const std::function<void()>& body) {
  const pid_t process = fork();
  if (process != 0) return process;
  try {
    body();
  } catch (const std::exception& error) {
    fprintf(stderr, "%s\n", error.what());
    _exit(1);
  }
  _exit(0);
}

int wait_for(pid_t process) {
  int status = 0;
  REQUIRE(waitpid(process, &status, 0) == process);
  return status;
}

int64_t value(const ResultsFolder& results, const std::string& sql) {
  Database database(results.database());
  return Statement(database, sql).value<int64_t>().value();
}

TEST_CASE("two processes that begin attempts of one run at once get numbers of their own") {
  const ResultsFolder results;
  constexpr int kAttempts = 60;
  int64_t run_id = 0;
  {
    Store store(results.path());
    run_id = running_run(store, 1);
  }
  int start[2];
  REQUIRE(pipe(start) == 0);
  std::vector<pid_t> processes;
  for (int i = 0; i < 2; ++i) {
    processes.push_back(start_process([&] {
      Store store(results.path());
      char byte;
      if (read(start[0], &byte, 1) != 1) _exit(2);
      for (int attempt = 0; attempt < kAttempts; ++attempt) {
        store.begin_attempt(run_id, attempt_start());
      }
    }));
  }
  REQUIRE(write(start[1], "go", 2) == 2);
  for (const pid_t process : processes) CHECK(wait_for(process) == 0);
  close(start[0]);
  close(start[1]);
  CHECK(value(results, "select max(attempt) from attempts") == 1 + 2 * kAttempts);
}

TEST_CASE("a full disk is reported with file and remedy, and keeps what was recorded") {
  const ResultsFolder results;
  int64_t run_id = 0;
  {
    Store store(results.path());
    run_id = running_run(store, 1);
    store.ingest(run_id, 1, 0, step_events(1, 100));
  }
  const pid_t writer = start_process([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{300'000, 300'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    Store store(results.path());
    try {
      for (int64_t step = 101;; step += kStepsPerTransaction) {
        store.ingest(run_id, 1, 0, step_events(step, step + kStepsPerTransaction - 1));
      }
    } catch (const std::runtime_error& error) {
      const std::string message = error.what();
      const bool named = message.find("results.sqlite: ") != std::string::npos;
      const bool advised = message.find("free space") != std::string::npos;
      // The store stays usable for reading.
      _exit(named && advised && store.comparison_per_rank("none").empty() ? 0 : 3);
    }
  });
  CHECK(wait_for(writer) == 0);
  const int64_t steps = value(results, "select count(*) from steps");
  CHECK(steps >= 100);
  CHECK(steps % kStepsPerTransaction == 0);
}

TEST_CASE("a folder that cannot be written is reported with what to do; it can still be read") {
  const ResultsFolder results;
  {
    Store store(results.path());
    const int64_t run_id = running_run(store, 1);
    store.ingest(run_id, 1, 0, step_events(1, 5));
  }
  using std::filesystem::perms;
  const perms readable = perms::owner_read | perms::owner_exec | perms::group_read |
                         perms::group_exec | perms::others_read | perms::others_exec;
  std::filesystem::permissions(results.database(), readable);
  std::filesystem::permissions(results.path(), readable);
  const pid_t reader = start_process([&] {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(2);  // root may write anywhere
    Store store(results.path());
    if (store.comparison("lab").size() != 1) _exit(3);
    try {
      store.ingest(1, 1, 0, step_events(6, 6));
      _exit(4);
    } catch (const std::runtime_error& error) {
      const std::string message = error.what();
      const bool advised = message.find("results.sqlite: ") != std::string::npos &&
                           message.find("--results") != std::string::npos;
      if (!advised) _exit(5);
    }
    try {
      Store(results.path() / "new folder");
      _exit(6);
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()).find("new folder") == std::string::npos) _exit(7);
    }
  });
  CHECK(wait_for(reader) == 0);
  std::filesystem::permissions(results.path(), perms::owner_all);
}

}  // namespace
}  // namespace fsdp
