#include "runner/commands/status.h"

#include <catch2/catch.hpp>

#include "runner/table/terminal_text.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

constexpr int64_t kGibibyte = int64_t{1} << 30;

size_t widest(const std::vector<std::string>& lines) {
  size_t columns = 0;
  for (const std::string& line : lines) columns = std::max(columns, display_width(line));
  return columns;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

DeviceSample gpu(const std::string& host, int number, double utilization, int64_t used_gib) {
  DeviceSample sample;
  sample.host = host;
  sample.device = "gpu:" + std::to_string(number);
  sample.utilization_percent = utilization;
  sample.memory_used_bytes = used_gib * kGibibyte;
  sample.memory_total_bytes = 64 * kGibibyte;
  sample.power_watts = 300.5;
  return sample;
}

DeviceSample processors(const std::string& host) {
  DeviceSample sample;
  sample.host = host;
  sample.device = "cpu";
  sample.cpu_count = 64;
  sample.utilization_percent = 12.6;
  sample.memory_used_bytes = 32 * kGibibyte;
  sample.memory_free_bytes = 300 * kGibibyte;
  sample.memory_total_bytes = 512 * kGibibyte;
  return sample;
}

// A run in a job: 30 of 100 steps are done, 2 s each.
RunState running() {
  RunState run;
  run.row.experiment = "chess";
  run.row.point = "4xFSDP";
  run.row.run = 3;
  run.row.status = RunStatus::kRunning;
  run.row.slurm_job = "12_0";
  run.row.node_list = "n[1-2]";
  run.row.steps_done = 30;
  run.row.steps_planned = 100;
  run.row.step_time_ms_median = 2'000;
  run.row.memory_allocated_bytes_max = 40 * kGibibyte;
  run.row.loss_last = 1.25;
  run.row.started_unix_ms = 1'000;
  run.seconds_left = 140;
  return run;
}

RunState queued() {
  RunState run;
  run.row.experiment = "chess";
  run.row.point = "4xFSDP with activation checkpointing and a long name";
  run.row.run = 4;
  run.row.status = RunStatus::kQueued;
  run.row.slurm_job = "12_1";
  run.row.job_state = "PENDING";
  run.row.job_reason = "Resources";
  return run;
}

TEST_CASE("runs in jobs show job, nodes or why they wait, and whichever time ends first") {
  std::vector<RunState> runs{running(), queued()};
  std::string shown = text_of(status_table(runs, 0, false));
  CAPTURE(shown);
  CHECK_THAT(shown, Catch::Contains("12_0") && Catch::Contains("n[1-2]") &&
                        Catch::Contains("30/100") && Catch::Contains("  2000  ") &&
                        Catch::Contains("  40.0  ") && Catch::Contains("2m 20s") &&
                        Catch::Contains("(Resources)") && !Catch::Contains("*"));
  runs[0].job_seconds_left = 3'600;
  CHECK_FALSE(runs[0].job_ends_first());
  runs[0].job_seconds_left = 61;
  CHECK(runs[0].job_ends_first());
  CHECK_THAT(text_of(status_table(runs, 0, false)), Catch::Contains("1m 01s*"));
  runs[0].seconds_left.reset();
  CHECK_THAT(text_of(status_table(runs, 0, false)), Catch::Contains("1m 01s*"));
}

TEST_CASE("a run whose job is suspended is shown as such") {
  std::vector<RunState> runs{running()};
  runs[0].row.job_state = "SUSPENDED";
  CHECK_THAT(text_of(status_table(runs, 0, false)), Catch::Contains("n[1-2] (suspended)"));
}

TEST_CASE("80 columns hold all but the time a run began, its loss and its number") {
  const std::vector<RunState> runs{running(), queued()};
  const auto lines = status_table(runs, 80, false);
  CAPTURE(text_of(lines));
  CHECK(widest(lines) <= 80);
  CHECK_THAT(lines[1], Catch::Contains("chess/4xFSDP") && Catch::Contains("running") &&
                           Catch::Contains("12_0") && Catch::Contains("30/100") &&
                           Catch::Contains("  40.0  ") && Catch::Contains("2m 20s") &&
                           Catch::Contains("n[1-2]"));
  CHECK_THAT(lines[2], Catch::Contains("queued") && Catch::Contains("12_1") &&
                           Catch::Contains("(Resources)"));
  CHECK_THAT(lines[0], !Catch::Contains("since"));
}

TEST_CASE("local runs have no columns of jobs") {
  RunState run = running();
  run.row.slurm_job.clear();
  run.row.node_list.clear();
  const std::vector<RunState> runs{run};
  CHECK_THAT(status_table(runs, 0, false)[0], !Catch::Contains("job") && !Catch::Contains("nodes"));
}

TEST_CASE("of many runs those are shown that run, then those that wait, then the last to end") {
  std::vector<StatusRow> rows(5);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].run = static_cast<int64_t>(i);
  rows[0].status = RunStatus::kFinished;
  rows[0].ended_unix_ms = 9'000;
  rows[1].status = RunStatus::kQueued;
  rows[2].status = RunStatus::kFinished;
  rows[2].ended_unix_ms = 8'000;
  rows[3].status = RunStatus::kRunning;
  rows[4].status = RunStatus::kPlanned;
  const auto runs_of = [](const std::vector<StatusRow>& chosen) {
    std::vector<int64_t> runs;
    for (const StatusRow& row : chosen) runs.push_back(row.run);
    return runs;
  };
  CHECK(runs_of(rows_of_interest(rows, 2)) == std::vector<int64_t>{1, 3});
  CHECK(runs_of(rows_of_interest(rows, 3)) == std::vector<int64_t>{0, 1, 3});
}

TEST_CASE("a node's line has processors, memory and power, and its GPUs stand below") {
  NodeState node;
  node.host = "n1";
  node.node = processors("n1");
  node.sampled_unix_ms = 10'000;
  for (int i = 0; i < 4; ++i) node.gpus.push_back(gpu("n1", i, 50 + i, 16));
  const std::vector<NodeState> nodes{node};
  const auto lines = node_table(nodes, 80, 13'000);
  CAPTURE(text_of(lines));
  CHECK(widest(lines) <= 80);
  CHECK_THAT(lines[1], Catch::Contains("n1") && Catch::Contains("64") && Catch::Contains("13 %") &&
                           Catch::Contains("480") && Catch::Contains("94 %") &&
                           Catch::Contains("300") && Catch::Contains("1202 W of GPUs"));
  REQUIRE(lines.size() == 4);
  CHECK(lines[2] == "  gpu:0  50 % busy 16.0/64.0 GiB 25 %    gpu:1  51 % busy 16.0/64.0 GiB 25 %");
  const auto wide = node_table(nodes, 200, 13'000);
  CHECK(wide.size() == 3);
  CHECK_THAT(wide[1], Catch::Contains("512") && Catch::EndsWith("3s ago"));
}

TEST_CASE("what was not sampled is said to be unknown") {
  NodeState node;
  node.host = "n1";
  node.gpus.push_back({});
  node.gpus[0].device = "gpu:0";
  const std::vector<NodeState> nodes{node};
  const auto lines = node_table(nodes, 0, 0);
  CHECK_THAT(lines[0], !Catch::Contains("power"));
  CHECK_THAT(lines[2], Catch::Contains("gpu:0     - busy -/- GiB"));
  node.node.power_watts = 500;
  CHECK_THAT(node_table(std::vector{node}, 0, 0)[1],
             Catch::Contains("500 W") && !Catch::Contains("GPUs"));
}

TEST_CASE_METHOD(StoreTest,
                 "nodes are those of runs under way, by the newest sample of each device") {
  const auto runs =
      store.plan(experiment("lab"), in_order({planned_run("one", 2), planned_run("two", 1)}));
  store.begin_attempt(runs[0].id, attempt_start());
  store.begin_attempt(runs[1].id, attempt_start());
  for (int64_t round = 0; round < 3; ++round) {
    const auto at = [&](int64_t sequence) { return 10 * round + sequence; };
    const int64_t time = 1'000 * round;
    store.ingest(runs[0].id, 1, 0,
                 std::vector{event(at(0), time, gpu("n1", 10, 7, round)),
                             event(at(1), time, gpu("n1", 2, 8, round)),
                             event(at(2), time, processors("n1"))});
    store.ingest(runs[0].id, 1, 1, std::vector{event(at(0), time, processors("n2"))});
    store.ingest(runs[1].id, 1, 0, std::vector{event(at(0), time - 500, gpu("n1", 2, 9, 60))});
  }
  const auto current = current_states(store, store.statuses("lab"), 5'000);
  const auto nodes = node_states(store, current);
  REQUIRE(nodes.size() == 2);
  CHECK(nodes[0].host == "n1");
  CHECK(nodes[0].node.cpu_count == 64);
  CHECK(nodes[0].sampled_unix_ms == 2'000);
  REQUIRE(nodes[0].gpus.size() == 2);
  CHECK(nodes[0].gpus[0].device == "gpu:2");
  CHECK(nodes[0].gpus[0].utilization_percent == 8);
  CHECK(nodes[0].gpus[0].memory_used_bytes == 2 * kGibibyte);
  CHECK(nodes[0].gpus[1].device == "gpu:10");
  CHECK(nodes[1].host == "n2");
  CHECK(nodes[1].gpus.empty());

  store.end_attempt(runs[0].id, 1, RunStatus::kFinished, "", 9'000);
  const auto later = node_states(store, current_states(store, store.statuses("lab"), 5'000));
  REQUIRE(later.size() == 1);
  CHECK(later[0].gpus.at(0).memory_used_bytes == 60 * kGibibyte);
}

TEST_CASE_METHOD(StoreTest, "time left is until the job's limit where that comes first") {
  const auto runs = store.plan(experiment("lab"), std::vector{planned_run("one", 1)});
  JobRecord job;
  job.experiment = "lab";
  job.token = "t0ken";
  job.folder = "slurm/lab-" + job.token;
  job.slurm_job = "12";
  job.mode = "per_run";
  job.tasks = {{.task = 0, .run = runs[0].id, .state = "RUNNING", .ends_unix_ms = 60'000}};
  store.record_job(job);
  AttemptStart start = attempt_start();
  start.slurm_job = "12_0";
  store.begin_attempt(runs[0].id, start);
  RunStarted started;
  started.steps_planned = 1'000;
  StepDone step = step_done(1, 1'000);
  store.ingest(runs[0].id, 1, 0, std::vector{event(0, 1, started), event(1, 2, step)});
  const auto states = current_states(store, store.statuses("lab"), 50'000);
  CHECK(states.at(0).seconds_left == 999);
  CHECK(states.at(0).job_seconds_left == 10);
  CHECK(current_states(store, store.statuses("lab"), 70'000).at(0).job_seconds_left == 0);
}

}  // namespace
}  // namespace fsdp
