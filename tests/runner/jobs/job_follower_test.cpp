#include "runner/cluster/job_follower.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/files/file_digest.h"
#include "runner/experiment/experiment.h"
#include "tests/runner/jobs/slurm_fixture.h"

namespace fsdp {
namespace {

using Folders = std::set<std::filesystem::path>;

// Records which folders are opened. Opening a folder makes an NFS client look for new names in it.
class OpenedFolders {
 public:
  OpenedFolders() : descriptor_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    REQUIRE(descriptor_ >= 0);
  }
  ~OpenedFolders() { close(descriptor_); }
  OpenedFolders(const OpenedFolders&) = delete;
  OpenedFolders& operator=(const OpenedFolders&) = delete;

  void watch(const std::filesystem::path& folder) {
    const int watched = inotify_add_watch(descriptor_, folder.c_str(), IN_OPEN | IN_ONLYDIR);
    REQUIRE(watched >= 0);
    folder_of_[watched] = folder;
  }
  // The folders opened since the last call.
  Folders opened() {
    Folders folders;
    alignas(inotify_event) std::array<char, 4096> buffer{};
    ssize_t size = 0;
    while ((size = read(descriptor_, buffer.data(), buffer.size())) > 0) {
      for (ssize_t at = 0; at < size;) {
        inotify_event event{};
        std::memcpy(&event, buffer.data() + at, sizeof(event));
        if (event.len == 0) folders.insert(folder_of_[event.wd]);  // no event of a file in it
        at += static_cast<ssize_t>(sizeof(event) + event.len);
      }
    }
    return folders;
  }

 private:
  int descriptor_;
  std::map<int, std::filesystem::path> folder_of_;
};

// A job of one run, which is followed pass by pass.
struct Followed {
  explicit Followed(const RunRecord& planned_alone = planned_run("point", 1)) {
    const std::vector planned{planned_alone};
    run = store.plan(experiment("lab"), planned).front();
    JobRecord job;
    job.experiment = "lab";
    job.token = "t0ken";
    job.folder = "slurm/lab-" + job.token;
    job.slurm_job = "100";
    job.mode = "per_run";
    job.tasks = {{.task = 0, .run = run.id, .device_kind = "cpu"}};
    job.id = store.record_job(job);
    std::filesystem::create_directories(paths().folder());
    follower.follow(job, std::span(&run, 1));
  }

  RunPaths paths() const { return RunPaths(results.path() / run.folder); }
  // Makes a pass, 2 s after the last one. Returns true if the run has ended.
  bool pass(TaskPhase phase) {
    now += std::chrono::seconds(2);
    const std::vector<TaskState> states{
        {.job = "100_0", .phase = phase, .state = "", .reason = "", .node_list = "n1"}};
    return !follower.pass(states).empty();
  }
  RunStatus status() const { return store.run(run.id)->status; }

  ResultsFolder results;
  Store store{results.path()};
  RecordingProgress progress;
  RunRecord run;
  std::chrono::steady_clock::time_point now{};
  JobFollower follower{{store, progress, results.path()}, [this] { return now; }};
};

TEST_CASE("before a run without an attempt is judged, its folder is asked again for one") {
  Followed lab;
  OpenedFolders folders;
  folders.watch(lab.paths().folder());
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(lab.paths().folder(), long_ago);
  CHECK_FALSE(lab.pass(TaskPhase::kRunning));
  folders.opened();
  CHECK_FALSE(lab.pass(TaskPhase::kEnded));
  CHECK(folders.opened().empty());
  for (bool has_ended = false; !has_ended;) {
    has_ended = lab.pass(TaskPhase::kEnded);
    REQUIRE(folders.opened() == Folders{lab.paths().folder()});
  }
  CHECK(lab.status() == RunStatus::kFailed);
}

TEST_CASE("before an attempt is judged whose ranks are silent, its folder is asked again") {
  const TaskPhase end = GENERATE(TaskPhase::kEnded, TaskPhase::kQueued);
  Followed lab;
  FakeJob job(lab.results.path(), lab.run);
  job.starts(1, "100_0");
  CHECK_FALSE(lab.pass(TaskPhase::kRunning));
  OpenedFolders folders;
  folders.watch(lab.paths().attempt(1));
  CHECK_FALSE(lab.pass(end));
  CHECK(folders.opened().empty());
  CHECK_FALSE(lab.pass(end));
  CHECK(folders.opened() == Folders{lab.paths().attempt(1)});
  job.ranks_finish();
  lab.pass(end);
  CHECK(lab.store.attempts(lab.run.id).front().status == RunStatus::kFinished);
}

TEST_CASE("an attempt that shows up late is asked for its files") {
  Followed lab;
  CHECK_FALSE(lab.pass(TaskPhase::kEnded));
  std::filesystem::create_directories(lab.paths().attempt(1));
  OpenedFolders folders;
  folders.watch(lab.paths().attempt(1));
  CHECK_FALSE(lab.pass(TaskPhase::kEnded));
  CHECK(folders.opened() == Folders{lab.paths().attempt(1)});
}

TEST_CASE(
    "a run of a killed batch script whose input changed is failed, though its ranks finished") {
  const TemporaryFolder data;
  RunRecord planned = planned_run("point", 1);
  planned.spec.data.train = data.write("games.csv", "games");
  planned.spec.data.tokenizer = data.write("tokenizer.model", "pieces");
  const bool has_changed = GENERATE(false, true);
  planned.data_digest = has_changed ? "another" : data_digest(planned.spec, file_digest);
  Followed lab(planned);
  FakeJob job(lab.results.path(), lab.run);
  job.starts(1, "100_0");
  std::filesystem::create_directories(lab.paths().checkpoint(1));
  const bool is_requeued = GENERATE(false, true);
  CAPTURE(has_changed, is_requeued);
  CHECK_FALSE(lab.pass(TaskPhase::kRunning));
  job.ranks_finish();
  CHECK(lab.pass(is_requeued ? TaskPhase::kQueued : TaskPhase::kEnded) == !is_requeued);
  const RunStatus status = lab.store.attempts(lab.run.id).front().status;
  CHECK(status == (has_changed ? RunStatus::kFailed : RunStatus::kFinished));
  CHECK(std::filesystem::exists(lab.paths().checkpoints()) == !has_changed);
}

TEST_CASE("an attempt found after its requeue has no clock that is behind") {
  Followed lab;
  FakeJob job(lab.results.path(), lab.run);
  job.clock_ms = -16'000;
  job.starts(1, "100_0");
  // The file server says when the attempt began.
  const auto began = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(16);
  std::filesystem::last_write_time(lab.paths().launch_record(1), began);
  CHECK_FALSE(lab.pass(TaskPhase::kQueued));
  job.clock_ms = 0;
  job.starts(2, "100_0");
  CHECK_FALSE(lab.pass(TaskPhase::kRunning));
  CHECK(lab.progress.count("the clock of") == 0);
}

TEST_CASE("new events of all running runs are one transaction") {
  const ResultsFolder results;
  Store store(results.path());
  RecordingProgress progress;
  JobFollower follower({store, progress, results.path()}, [] { return JobFollower::TimePoint(); });
  const std::vector<RunRecord> runs = store.plan(experiment("lab"), runs_of_one_shape(12));
  JobRecord job{.experiment = "lab",
                .token = "t0ken",
                .slurm_job = "100",
                .mode = "per_run",
                .folder = "slurm/lab-t0ken"};
  std::vector<FakeJob> jobs;
  std::vector<TaskState> states;
  for (const RunRecord& run : runs) {
    const auto name = "100_" + std::to_string(std::ssize(jobs));
    job.tasks.push_back({.task = std::ssize(jobs), .run = run.id, .device_kind = "cpu"});
    jobs.emplace_back(results.path(), run).starts(1, name);
    states.push_back({.job = name, .phase = TaskPhase::kRunning, .state = "RUNNING"});
  }
  job.id = store.record_job(job);
  follower.follow(job, runs);
  follower.pass(states);
  // SQLite counts a file's changes in its header.
  const auto changes = [&] { return read_text_file(results.database()).substr(24, 4); };
  const auto count = [](const std::string& bytes) {
    return static_cast<uint8_t>(bytes[2]) << 8 | static_cast<uint8_t>(bytes[3]);
  };
  const int before = count(changes());
  for (FakeJob& each : jobs) each.steps(3);
  follower.read_events();
  CHECK(count(changes()) == before + 1);
  for (const RunRecord& run : runs) CHECK(store.events<StepDone>(run.id, 1).size() == 3);
  follower.read_events();  // nothing is new
  CHECK(count(changes()) == before + 1);
}

TEST_CASE("a run whose folder is gone is followed no more") {
  Followed lab;
  CHECK(lab.follower.follows(lab.run.id));
  std::filesystem::remove_all(lab.paths().folder());
  const TaskPhase phase = GENERATE(TaskPhase::kQueued, TaskPhase::kEnded);
  CHECK_FALSE(lab.pass(phase));
  CHECK_FALSE(lab.follower.follows(lab.run.id));
  CHECK(lab.follower.tasks().empty());
}

}  // namespace
}  // namespace fsdp
