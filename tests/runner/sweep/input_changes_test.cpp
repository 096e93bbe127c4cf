#include "runner/sweep/input_changes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/progress/line_progress.h"
#include "runner/sweep/job_outcome.h"
#include "runner/sweep/recovery.h"
#include "runner/sweep/run_experiment.h"
#include "tests/runner/sweep/slurm_fixture.h"
#include "trainer/contract/file_digest.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;

void set_modified(const std::filesystem::path& file, int64_t seconds) {
  const timespec times[2] = {{seconds, 0}, {seconds, 0}};
  REQUIRE(utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
}

// A run over two files of its own, as it was planned.
struct Planned {
  Planned() {
    std::filesystem::create_directory(data / "set");
    write("games.csv", "games");
    write("tokenizer.model", "pieces");
    Store::PlannedRun planned = planned_run("point", 1);
    planned.spec.data.train = data / "set/games.csv";
    planned.spec.data.tokenizer = data / "set/tokenizer.model";
    planned.data_digest =
        data_digest(planned.spec, [&](const auto& file) { return current_digest(store, file); });
    run = {store.plan(experiment("lab"), std::vector{planned}).front(), planned.spec};
  }

  // With one time of modification.
  void write(const std::string& name, const std::string& text) const {
    data.write("set/" + name, text);
    set_modified(data / "set" / name, 1'000);
  }
  std::optional<std::string> changed(std::optional<int64_t> ended_unix_ms = std::nullopt) {
    return changed_input(store, run.record, run.spec, ended_unix_ms);
  }
  RunPaths paths() const { return RunPaths(results.path() / run.record.folder); }
  AttemptRecord last_attempt() const { return store.attempts(run.record.id).back(); }

  ResultsFolder results;
  TemporaryFolder data;
  Store store{results.path()};
  RunToLaunch run;
};

// Each launch is over at once, after `during`.
class ShortLauncher : public Launcher {
 public:
  explicit ShortLauncher(std::function<void()> during) : during_(std::move(during)) {}
  bool has_room(size_t, bool) const override { return true; }
  void start(const LaunchRequest& request) override {
    ended_.push_back({.id = request.id});
    ++started;
    during_();
  }
  std::vector<LaunchResult> wait(std::chrono::milliseconds) override {
    return std::exchange(ended_, {});
  }
  void stop_all() override {}

  int started = 0;

 private:
  std::function<void()> during_;
  std::vector<LaunchResult> ended_;
};

// What a rank of a whole run writes.
void report_whole_run(const Planned& planned, int attempt) {
  std::filesystem::create_directories(planned.paths().attempt(attempt));
  std::ofstream file(planned.paths().events(attempt, 0));
  RunStarted started;
  started.steps_planned = 1;
  int64_t sequence = 0;
  for (const decltype(Event::body)& body :
       std::vector<decltype(Event::body)>{started, step_done(1, 10), RunFinished{.steps = 1}}) {
    file << to_json_line(event(sequence++, now_unix_ms(), body)) << '\n';
  }
}

ExitCode sweep(Planned& planned, Launcher& launcher, std::optional<JobOfSweep> job = {}) {
  QuietProgress progress;
  SweepSettings settings;
  settings.results = planned.results.path();
  settings.device_kind = [](const RunSpec&) { return std::string("cpu"); };
  settings.job = std::move(job);
  return Sweep(planned.store, launcher, progress, std::move(settings)).run({planned.run});
}

TEST_CASE("an input that changes after a run was planned is found, whatever its size and time") {
  Planned planned;
  CHECK_FALSE(planned.changed());
  const auto games = (planned.data / "set/games.csv").string();
  SECTION("edited in place") {
    planned.write("games.csv", "Games");
    CHECK_THAT(planned.changed().value_or(""), Contains(games) && Contains(" changed"));
  }
  SECTION("its folder swapped for another") {
    const auto set = planned.data / "set", other = planned.data / "other";
    std::filesystem::copy(set, other);
    planned.data.write("other/games.csv", "Games");
    set_modified(other / "games.csv", 1'000);
    std::filesystem::rename(set, planned.data / "away");
    std::filesystem::rename(other, set);
    CHECK(planned.changed());
  }
  SECTION("gone") {
    std::filesystem::remove(games);
    CHECK_THAT(planned.changed().value_or(""), Contains(games) && Contains("No such file"));
  }
  SECTION("touched, moved away and back, linked: its bytes are what they were") {
    set_modified(games, 2'000);
    std::filesystem::rename(games, games + "2");
    std::filesystem::create_hard_link(games + "2", games);
    CHECK_FALSE(planned.changed());
  }
}

TEST_CASE("of contents that are remembered the file that changed is named alone") {
  Planned planned;
  const auto games = planned.data / "set/games.csv";
  planned.store.remember_digest(state_of(games), file_digest(games));
  planned.write("games.csv", "other games");
  CHECK(planned.changed() == games.string() + " changed");
}

TEST_CASE("a change that is known to be later than an attempt's end is none of its own") {
  Planned planned;
  constexpr int64_t kHourMs = 3'600'000;
  planned.write("games.csv", "Games");
  CHECK_FALSE(planned.changed(now_unix_ms() - kHourMs));
  CHECK(planned.changed(now_unix_ms()));
  std::filesystem::remove_all(planned.data / "set");
  CHECK_FALSE(planned.changed(now_unix_ms() - kHourMs));
  CHECK(planned.changed(now_unix_ms()));
}

TEST_CASE("a run whose input changed since it was planned is failed and not launched") {
  Planned planned;
  planned.write("games.csv", "Games");
  ShortLauncher launcher([] {});
  CHECK(sweep(planned, launcher) == ExitCode::kRunFailed);
  CHECK(launcher.started == 0);
  CHECK(planned.last_attempt().status == RunStatus::kFailed);
  CHECK_THAT(planned.last_attempt().reason, Contains("games.csv") &&
                                                Contains("changed since the run was planned") &&
                                                Contains("run the experiment again"));
}

TEST_CASE("a run whose input changed while it went on is failed, and nothing resumes from it") {
  Planned planned;
  const bool in_job = GENERATE(false, true);
  ShortLauncher launcher([&] {
    report_whole_run(planned, 1);
    std::filesystem::create_directories(planned.paths().checkpoint(1));
    planned.write("games.csv", "Games");
  });
  const std::optional<JobOfSweep> job =
      in_job ? std::optional(JobOfSweep{"12", "n1"}) : std::nullopt;
  CHECK(sweep(planned, launcher, job) == ExitCode::kRunFailed);
  CHECK(planned.last_attempt().status == RunStatus::kFailed);
  CHECK_THAT(planned.last_attempt().reason,
             Contains("games.csv") && Contains("changed while the run went on; run it again"));
  CHECK_FALSE(std::filesystem::exists(planned.paths().checkpoints()));
  if (!in_job) return;
  const auto end = read_attempt_end(planned.paths(), 1, [](const std::string&) {});
  REQUIRE(end);
  const auto ranks = planned.store.rank_ends(planned.run.record.id, 1);
  const AttemptOutcome outcome = job_attempt_outcome({.ranks = ranks, .end = end});
  CHECK(outcome.status == RunStatus::kFailed);
  CHECK(outcome.reason == planned.last_attempt().reason);
}

TEST_CASE("a run whose input was changed and put back while it went on is failed") {
  Planned planned;
  ShortLauncher launcher([&] {
    report_whole_run(planned, 1);
    planned.write("games.csv", "Games");
    planned.write("games.csv", "games");
  });
  CHECK(sweep(planned, launcher) == ExitCode::kRunFailed);
  CHECK_THAT(planned.last_attempt().reason,
             Contains("games.csv was written to") && Contains("while the run went on"));
}

TEST_CASE("an attempt of a killed runner whose input changed is failed when it is closed") {
  Planned planned;
  const bool has_changed = GENERATE(false, true);
  const int64_t run = planned.run.record.id;
  AttemptStart start = attempt_start(now_unix_ms());
  planned.store.begin_attempt(run, start);
  report_whole_run(planned, 1);
  if (has_changed) planned.write("games.csv", "Games");
  recover_attempts(planned.store, planned.results.path(), "lab", [](const std::string&) {});
  const RunStatus status = has_changed ? RunStatus::kFailed : RunStatus::kFinished;
  CHECK(planned.last_attempt().status == status);
}

}  // namespace
}  // namespace fsdp
