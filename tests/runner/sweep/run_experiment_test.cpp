#include <catch2/catch.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "contract/spec/run_spec_yaml.h"
#include "runner/progress/progress.h"
#include "runner/run/run_loop.h"
#include "tests/runner/store/store_fixture.h"

using namespace fsdp;

namespace {

// Starts nothing: every launch is over at once.
class RecordingLauncher : public Launcher {
 public:
  bool has_room(size_t, bool) const override { return true; }
  void start(const LaunchRequest& request) override { requests.push_back(request); }
  std::vector<AttemptEnd> wait(std::chrono::milliseconds) override {
    std::vector<AttemptEnd> results;
    for (; waited < requests.size(); ++waited) {
      results.push_back({.run = requests[waited].id,
                         .outcome = LaunchOutcome::kFailed,
                         .reason = "nothing was started"});
    }
    return results;
  }
  void stop_all() override {}

  std::vector<LaunchRequest> requests;

 private:
  size_t waited = 0;
};

}  // namespace

TEST_CASE_METHOD(
    StoreTest, "a run that writes checkpoints has the time to write one when it is asked to stop") {
  auto planned = in_order({planned_run("plain", 1), planned_run("saves", 2)});
  planned[1].spec.checkpoint.at_end = true;
  const auto records = store.plan(experiment("lab"), planned);
  RecordingLauncher launcher;
  QuietProgress progress;
  FileDigests digests;
  RunLoop loop(launcher, progress, digests, &store,
               {.results = results.path(),
                .trainer = "",
                .host = "node1",
                .device_kind = [](const RunSpec&) { return std::string("cpu"); }});
  loop.run(records);
  REQUIRE(launcher.requests.size() == 2);
  CHECK_FALSE(launcher.requests[0].time_to_stop);
  CHECK(launcher.requests[1].time_to_stop == std::chrono::seconds(60));
}

TEST_CASE_METHOD(StoreTest, "a run that began from a folder began there again") {
  auto planned = in_order({planned_run("run", 1)});
  planned[0].spec.resume.path = "/other/step-3";
  const RunRecord run = store.plan(experiment("lab"), planned).front();
  const RunPaths paths(results.path() / run.folder);
  RecordingLauncher launcher;
  QuietProgress progress;
  FileDigests digests;
  const auto attempt = [&] {
    LoopSettings settings;
    settings.results = results.path();
    settings.device_kind = [](const RunSpec&) { return std::string("cpu"); };
    RunLoop(launcher, progress, digests, nullptr, std::move(settings)).run({run});
  };
  attempt();
  CHECK(read_run_spec(paths.spec()).resume == planned[0].spec.resume);
  std::filesystem::create_directories(paths.checkpoint(9));
  attempt();
  CHECK(read_run_spec(paths.spec()).resume.is_auto);
}

TEST_CASE_METHOD(
    StoreTest,
    "in a job the time to write a checkpoint is that between Slurm's signal and its limit") {
  auto planned =
      in_order({planned_run("long", 1), planned_run("short", 2), planned_run("none", 3)});
  planned[0].spec.slurm.signal_before_end_s = 600;
  planned[1].spec.slurm.signal_before_end_s = 30;
  for (const size_t run : {0, 1}) planned[run].spec.checkpoint.every_steps = 10;
  const auto records = store.plan(experiment("lab"), planned);
  RecordingLauncher launcher;
  QuietProgress progress;
  const auto times_to_stop = [&](const std::optional<JobOfLoop>& job) {
    LoopSettings settings;
    settings.results = results.path();
    settings.device_kind = [](const RunSpec&) { return std::string("cpu"); };
    settings.job = job;
    launcher = RecordingLauncher();
    FileDigests digests;
    RunLoop loop(launcher, progress, digests, &store, std::move(settings));
    loop.run(records);
    std::vector<std::optional<std::chrono::milliseconds>> times;
    for (const LaunchRequest& request : launcher.requests) times.push_back(request.time_to_stop);
    return times;
  };
  using Times = std::vector<std::optional<std::chrono::milliseconds>>;
  using std::chrono::seconds;
  CHECK(times_to_stop(JobOfLoop{"12", "n1"}) == Times{seconds(580), seconds(60), std::nullopt});
  CHECK(times_to_stop(std::nullopt) == Times{seconds(60), seconds(60), std::nullopt});
}
