#include "runner/sweep/run_experiment.h"

#include <catch2/catch.hpp>

#include "runner/progress/line_progress.h"
#include "tests/runner/store/store_fixture.h"

using namespace fsdp;

namespace {

// Starts nothing: every launch is over at once.
class RecordingLauncher : public Launcher {
 public:
  bool has_room(size_t, bool) const override { return true; }
  void start(const LaunchRequest& request) override { requests.push_back(request); }
  std::vector<LaunchResult> wait(std::chrono::milliseconds) override {
    std::vector<LaunchResult> results;
    for (; waited < requests.size(); ++waited) {
      results.push_back({.id = requests[waited].id,
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

TEST_CASE("a run that writes checkpoints has the time to write one when it is asked to stop") {
  const ResultsFolder results;
  Store store(results.path());
  auto planned = in_order({planned_run("plain", 1), planned_run("saves", 2)});
  planned[1].spec.checkpoint.at_end = true;
  const auto records = store.plan(experiment("lab"), planned);
  RecordingLauncher launcher;
  QuietProgress progress;
  Sweep sweep(store, launcher, progress,
              {.results = results.path(),
               .trainer = "",
               .host = "node1",
               .device_kind = [](const RunSpec&) { return std::string("cpu"); }});
  sweep.run({{records[0], planned[0].spec}, {records[1], planned[1].spec}});
  REQUIRE(launcher.requests.size() == 2);
  CHECK_FALSE(launcher.requests[0].time_to_stop);
  CHECK(launcher.requests[1].time_to_stop == std::chrono::seconds(60));
}
