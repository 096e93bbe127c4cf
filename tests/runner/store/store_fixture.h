#pragma once

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "contract/record/run_paths.h"
#include "runner/store/database.h"
#include "runner/store/store.h"
#include "tests/temporary_folder.h"

// A results folder for each test, and functions that write runs and events.
namespace fsdp {

class ResultsFolder : public TemporaryFolder {
 public:
  std::filesystem::path database() const { return path() / "results.sqlite"; }
};

// An empty store for a test.
struct StoreTest {
  const ResultsFolder results;
  Store store{results.path()};
};

inline int64_t count(const ResultsFolder& results, const std::string& table) {
  Database database(results.database());
  return Statement(database, "select count(*) from " + table).value<int64_t>().value();
}

// Returns the output of the sqlite3 program.
inline std::string sqlite3(const ResultsFolder& results, const std::string& sql) {
  const std::string command =
      "sqlite3 -csv -nullvalue NULL '" + results.database().string() + "' \"" + sql + "\" 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  char buffer[256];
  while (fgets(buffer, sizeof(buffer), pipe)) output += buffer;
  REQUIRE(pclose(pipe) == 0);
  return output;
}

inline ExperimentRecord experiment(const std::string& name) {
  return {.name = name,
          .title = "",
          .file = name + ".yaml",
          .text = "",
          .text_digest = "",
          .profile = "cpu"};
}

inline RunRecord planned_run(const std::string& point, int64_t ranks,
                             const std::string& hash = "0123456789abcdef") {
  RunSpec spec;
  spec.strategy.kind = ranks == 1 ? StrategyKind::kSingle : StrategyKind::kDdp;
  spec.strategy.ranks = ranks;
  spec.device = DeviceKind::kCpu;
  return {.point = point,
          .spec = resolved(spec),
          .hash = hash,
          .folder = std::filesystem::path("runs") / "lab" / file_name_of(point)};
}

inline std::vector<RunRecord> in_order(std::vector<RunRecord> runs) {
  for (size_t i = 0; i < runs.size(); ++i) runs[i].position = static_cast<int64_t>(i);
  return runs;
}

inline AttemptStart attempt_start(int64_t started_unix_ms = 1'000) {
  return {.runner_process_id = 42, .started_unix_ms = started_unix_ms, .host = "node1"};
}

// Plans one run of `ranks` ranks in the experiment "lab" and begins its first attempt.
inline int64_t running_run(Store& store, int64_t ranks) {
  const std::vector runs{planned_run("point", ranks)};
  const int64_t run_id = store.plan(experiment("lab"), runs).front().id;
  store.begin_attempt(run_id, attempt_start());
  return run_id;
}

// Plans the runs "one" and "two" of the experiment "lab", and ends an attempt of the first.
inline std::vector<RunRecord> plan_two(Store& store) {
  const std::vector<RunRecord> runs = store.plan(
      experiment("lab"), in_order({planned_run("one", 1), planned_run("two", 1, "another")}));
  store.begin_attempt(runs[0].id, attempt_start());
  store.end_attempt(runs[0].id, 1, RunStatus::kFinished, "", 2'000);
  return runs;
}

inline StepDone step_done(int64_t step, double step_time_ms) {
  StepDone done;
  done.step = step;
  done.loss = 10.0 / static_cast<double>(step);
  done.step_time_ms = step_time_ms;
  done.tokens = 1'000;
  done.memory_allocated_bytes_max = 100 * step;
  done.memory_reserved_bytes_max = 200 * step;
  return done;
}

inline Event event(int64_t sequence, int64_t time_unix_ms, decltype(Event::body) body) {
  return {.sequence = sequence, .time_unix_ms = time_unix_ms, .body = std::move(body)};
}

// Steps first..last with sequence = step, one a second.
inline std::vector<Event> step_events(int64_t first, int64_t last) {
  std::vector<Event> events;
  for (int64_t step = first; step <= last; ++step) {
    events.push_back(event(step, 1'000 * step, step_done(step, 10)));
  }
  return events;
}

}  // namespace fsdp
