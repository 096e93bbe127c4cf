#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <vector>

#include "base/files/file_digest.h"
#include "runner/experiment/experiment.h"
#include "runner/progress/progress.h"
#include "runner/run/attempt.h"
#include "runner/run/earlier_attempts.h"
#include "runner/run/run_loop.h"
#include "tests/runner/jobs/slurm_fixture.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;

void set_modified(const std::filesystem::path& file, int64_t seconds) {
  const timespec times[2] = {{seconds, 0}, {seconds, 0}};
  REQUIRE(utimensat(AT_FDCWD, file.c_str(), times, 0) == 0);
}

// A planned run that reads two files of its own.
struct Planned {
  Planned() {
    std::filesystem::create_directory(data / "set");
    write("games.csv", "games");
    write("tokenizer.model", "pieces");
    run.spec = planned_run("point", 1).spec;
    run.spec.data.train = data / "set/games.csv";
    run.spec.data.tokenizer = data / "set/tokenizer.model";
    plan(file_digest);
  }

  // Plans the run. `digest` gives the digests of its input files.
  void plan(const FileDigest& digest) {
    RunRecord planned = planned_run("point", 1, data_digest(run.spec, digest));
    planned.spec = run.spec;
    planned.data_digest = data_digest(run.spec, digest);
    run = store.plan(experiment("lab"), std::vector{planned}).front();
  }

  // Gives all files the same time of modification.
  void write(const std::string& name, const std::string& text) const {
    data.write("set/" + name, text);
    set_modified(data / "set" / name, 1'000);
  }
  std::optional<std::string> changed(std::optional<int64_t> ended_unix_ms = std::nullopt) {
    FileDigests digests(store, run.spec);
    return changed_input(digests, run, ended_unix_ms);
  }
  RunPaths paths() const { return RunPaths(results.path() / run.folder); }
  AttemptRecord last_attempt() {
    store.sync({run.folder});
    return store.attempts(run.id).back();
  }

  ResultsFolder results;
  TemporaryFolder data;
  Store store{results.path()};
  RunRecord run;
};

// Calls `during` in each launch, which ends at once.
class ShortLauncher : public Launcher {
 public:
  explicit ShortLauncher(std::function<void()> during) : during_(std::move(during)) {}
  bool has_room(size_t, bool) const override { return true; }
  void start(const LaunchRequest& request) override {
    ended_.push_back({.run = request.id, .outcome = LaunchOutcome::kExited});
    ++started;
    during_();
  }
  std::vector<AttemptEnd> wait(std::chrono::milliseconds) override {
    return std::exchange(ended_, {});
  }
  void stop_all() override {}

  int started = 0;

 private:
  std::function<void()> during_;
  std::vector<AttemptEnd> ended_;
};

// Writes the events of a finished run of one rank.
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

// Calls `heard` each time that the sweep has looked for work.
class HeardProgress : public QuietProgress {
 public:
  explicit HeardProgress(std::function<void()> heard) : heard_(std::move(heard)) {}

 private:
  void update(ProgressClock::time_point) override { heard_(); }

  std::function<void()> heard_;
};

ExitCode sweep(
    Planned& planned, Launcher& launcher, std::optional<JobOfLoop> job = {},
    const std::function<void()>& heard = [] {}) {
  HeardProgress progress(heard);
  LoopSettings settings;
  settings.results = planned.results.path();
  settings.device_kind = [](const RunSpec&) { return std::string("cpu"); };
  settings.job = std::move(job);
  FileDigests digests(planned.store, planned.run.spec);
  return RunLoop(launcher, progress, digests, nullptr, std::move(settings)).run({planned.run});
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

TEST_CASE("a later change of one input does not acquit another that changed before") {
  Planned planned;
  const std::filesystem::path old = "/bin/sh";  // a file that nobody has changed for long
  const int64_t ended_unix_ms = state_of(old).changed_unix_ns / 1'000'000;
  REQUIRE(now_unix_ms() > ended_unix_ms + 120'000);
  planned.run.spec.data.tokenizer = old;
  planned.plan([&](const auto& file) { return file == old ? "other pieces" : file_digest(file); });
  if (GENERATE(false, true)) {
    planned.write("games.csv", "Games");
  } else {
    std::filesystem::remove(planned.data / "set/games.csv");
  }
  CHECK(planned.changed(ended_unix_ms));
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
  const std::optional<JobOfLoop> job = in_job ? std::optional(JobOfLoop{"12", "n1"}) : std::nullopt;
  CHECK(sweep(planned, launcher, job) == ExitCode::kRunFailed);
  if (in_job) {  // the user's runner reads the job's files
    const AttemptEnd end = read_end(planned.paths(), 1, [](const std::string&) {});
    CHECK(end.outcome == LaunchOutcome::kExited);
    CHECK(end.changed_input);
    planned.store.sync();
    const AttemptReports reports =
        read_reports(planned.results.path(), planned.run, 1, [](const std::string&) {});
    close_attempt(planned.store, planned.results.path(), planned.run, 1, reports.ranks(), end);
  }
  CHECK(planned.last_attempt().status == RunStatus::kFailed);
  CHECK_THAT(planned.last_attempt().reason,
             Contains("games.csv") && Contains("changed during the run; run it again"));
  CHECK_FALSE(std::filesystem::exists(planned.paths().checkpoints()));
}

TEST_CASE("a run finished with a changed input if its runner's clock was a day behind") {
  Planned planned;
  planned.store.begin_attempt(planned.run.id, attempt_start(now_unix_ms()));
  planned.write("games.csv", "Games");
  report_whole_run(planned, 1);
  const AttemptReports reports =
      read_reports(planned.results.path(), planned.run, 1, [](const std::string&) {});
  AttemptEnd end;
  end.outcome = LaunchOutcome::kExited;
  end.ended_unix_ms = now_unix_ms() - 24 * 3'600'000;
  close_attempt(planned.store, planned.results.path(), planned.run, 1, reports.ranks(), end);
  CHECK(planned.last_attempt().status == RunStatus::kFailed);
}

TEST_CASE("a run is not closed before its tainted checkpoints are set aside") {
  Planned planned;
  const auto in_the_way = planned.paths().attempt(1) / "checkpoints";
  ShortLauncher launcher([&] {
    report_whole_run(planned, 1);
    std::filesystem::create_directories(planned.paths().checkpoint(1));
    planned.write("games.csv", "Games");
    std::ofstream(in_the_way) << "no folder";
  });
  int looks = 0;
  const auto remove_at_last = [&] {
    if (std::filesystem::exists(in_the_way / "step-1") || ++looks < 3) return;
    CHECK(planned.last_attempt().status == RunStatus::kRunning);
    CHECK(std::filesystem::exists(planned.paths().checkpoint(1)));
    std::filesystem::remove(in_the_way);
  };
  CHECK(sweep(planned, launcher, {}, remove_at_last) == ExitCode::kRunFailed);
  CHECK(looks == 3);
  CHECK(planned.last_attempt().status == RunStatus::kFailed);
  CHECK(std::filesystem::exists(in_the_way / "step-1"));
}

TEST_CASE("a verdict on inputs is made while the results are there: inputs may be in them") {
  Planned planned;
  const auto results = planned.results.path();
  const auto away = results.string() + ".away";
  planned.run.spec.evaluation.data = results / "held_out.csv";
  std::ofstream(results / "held_out.csv") << "games";
  planned.plan(file_digest);
  ShortLauncher launcher([&] {
    report_whole_run(planned, 1);
    std::filesystem::rename(results, away);
  });
  int looks = 0;
  const auto put_back = [&] {
    if (++looks == 3) std::filesystem::rename(away, results);
  };
  CHECK(sweep(planned, launcher, {}, put_back) == ExitCode::kOk);
  CHECK(planned.last_attempt().status == RunStatus::kFinished);
}

TEST_CASE("an attempt never takes a folder that is there: its events would be the run's") {
  Planned planned;
  const int64_t run = planned.run.id;
  planned.store.begin_attempt(run, attempt_start(now_unix_ms()));
  planned.store.end_attempt(run, 1, RunStatus::kInterrupted, "", now_unix_ms());
  report_whole_run(planned, 2);  // started by hand after attempt-1 was deleted
  ShortLauncher launcher([] {});
  CHECK(sweep(planned, launcher) == ExitCode::kRunFailed);
  CHECK(planned.last_attempt().attempt == 3);
  CHECK_THAT(planned.last_attempt().reason, Contains("every rank exited with status 0, but"));
  CHECK(launcher.started == 1);
}

TEST_CASE("an attempt of a killed runner whose input changed is failed when it is closed") {
  Planned planned;
  const bool has_changed = GENERATE(false, true);
  const int64_t run = planned.run.id;
  AttemptStart start = attempt_start(now_unix_ms());
  planned.store.begin_attempt(run, start);
  report_whole_run(planned, 1);
  if (has_changed) planned.write("games.csv", "Games");
  recover_attempts(planned.store, planned.results.path(), "lab", [](const std::string&) {});
  const RunStatus status = has_changed ? RunStatus::kFailed : RunStatus::kFinished;
  CHECK(planned.last_attempt().status == status);
}

TEST_CASE(
    "inputs that were compared at an attempt's end are not compared again when it is closed") {
  Planned planned;
  planned.store.begin_attempt(planned.run.id, attempt_start(now_unix_ms()));
  report_whole_run(planned, 1);
  const bool were_compared = GENERATE(false, true);
  AttemptEnd end;
  end.outcome = LaunchOutcome::kExited;
  end.ended_unix_ms = now_unix_ms();
  end.inputs_compared = were_compared;
  write_end(planned.paths(), 1, end);
  std::filesystem::remove_all(planned.data / "set");  // the project was moved
  recover_attempts(planned.store, planned.results.path(), "lab", [](const std::string&) {});
  CHECK(planned.last_attempt().status ==
        (were_compared ? RunStatus::kFinished : RunStatus::kFailed));
}

TEST_CASE("a job that starts again sets aside what an attempt with changed inputs has left") {
  Planned planned;
  QuietProgress progress;
  report_whole_run(planned, 1);
  std::filesystem::create_directories(planned.paths().checkpoint(1));
  AttemptStart start = attempt_start();
  start.slurm_job = "12";
  write_start(planned.paths(), 1, start);
  if (GENERATE(false, true)) {
    planned.write("games.csv", "Games");
  } else {  // the job was killed after it had compared; the file was restored
    AttemptEnd end;
    end.outcome = LaunchOutcome::kExited;
    end.inputs_compared = true;
    end.changed_input = "games.csv changed";
    write_end(planned.paths(), 1, end);
  }
  const auto nothing_follows = [](const RunRecord&, RunStatus) {
    return std::optional<RunRecord>();
  };
  FileDigests digests(planned.store, planned.run.spec);
  JobOfLoop job{.id = "12", .node_list = "n1"};
  const auto left = left_to_launch({planned.run}, planned.results.path(), job, digests, progress,
                                   nothing_follows);
  CHECK(left.empty());
  CHECK_FALSE(std::filesystem::exists(planned.paths().checkpoints()));
  CHECK(std::filesystem::exists(planned.paths().attempt(1) / "checkpoints/step-1"));
}

}  // namespace
}  // namespace fsdp
