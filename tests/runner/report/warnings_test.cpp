#include <algorithm>
#include <functional>

#include "runner/answers/answers.h"
#include "runner/table/names.h"
#include "runner/table/terminal_text.h"
#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

using RunRows = std::vector<ComparisonRow>;
using Change = std::function<void(RunRows&)>;

// Two rows that need no warning.
RunRows good_rows() {
  RunRows rows{finished_row(1, "4xDDP", StrategyKind::kDdp, 4, 200),
               finished_row(2, "4xFSDP", StrategyKind::kFsdp, 4, 210)};
  for (ComparisonRow& row : rows) {
    row.git_commit = "0123456789abcdef";
    row.git_dirty = false;
    row.trainer_digest = "trainer0";
    row.torch_version = "2.11.0";
    row.data_digest = "data0000";
    row.loss_digest = "losses00";
    row.compare = "loss";
    row.steps_planned = 100;
  }
  return rows;
}

// Returns the warnings after the change.
std::vector<Warning> warnings_after(const Change& change) {
  RunRows rows = good_rows();
  change(rows);
  const std::deque<Series> all = series_of(rows);
  return warnings_for({mapped(all, [](const Series& series) { return &series; })});
}

std::string names_after(const Change& change) {
  return joined_texts(mapped(warnings_after(change), &Warning::name), " ");
}

// Returns the text of the only warning.
std::string text_after(const Change& change) {
  const std::vector<Warning> warnings = warnings_after(change);
  REQUIRE(warnings.size() == 1);
  return warnings.front().text;
}

// Returns a change of the second row.
Change second(const std::function<void(ComparisonRow&)>& change) {
  return [=](RunRows& rows) { change(rows[1]); };
}

// Returns a change that sets a member of the second row.
template <typename Member, typename Value>
Change set(Member member, Value value) {
  return second([=](ComparisonRow& row) { row.*member = value; });
}

Change busy(double others_percent, double wait_percent) {
  return second([=](ComparisonRow& row) {
    row.cpu_time_others_percent = others_percent;
    row.run_queue_wait_percent = wait_percent;
  });
}

Change noise(DeviceKind device, double range_ms) {
  return [=](RunRows& rows) {
    for (ComparisonRow& row : rows) row.spec.device = device;
    rows[1].step_time_ms_p75 = *rows[1].step_time_ms_p25 + range_ms;
  };
}

Change last_loss(double loss, PrecisionKind precision) {
  return [=](RunRows& rows) {
    for (ComparisonRow& row : rows) row.spec.precision.kind = precision;
    rows[1].loss_last = loss;
  };
}

// Returns a change that makes the second row three repeats, before `change`.
Change repeats(const Change& change) {
  return [=](RunRows& rows) {
    const ComparisonRow first = rows[1];
    for (int64_t repeat = 0; repeat < 3; ++repeat) {
      if (repeat > 0) rows.push_back(first);
      rows.back().run = 2 + repeat;
      rows.back().repeat = repeat;
      rows.back().point = "4xFSDP #" + std::to_string(repeat + 1);
    }
    change(rows);
  };
}

Change slow_repeat(double step_time_ms) {  // upper quartile: half way from 210
  return repeats([=](RunRows& rows) { rows[3].step_time_ms_median = step_time_ms; });
}

Change both(const Change& one, const Change& other) {
  return [=](RunRows& rows) {
    one(rows);
    other(rows);
  };
}

// The first run takes from 1,000 s to 1,060 s on the node n1, the second one 10 s.
Change at_the_same_time(int64_t started_unix_ms, const std::string& host,
                        const std::string& first_nodes = "", const std::string& nodes = "") {
  return [=](RunRows& rows) {
    rows[0].started_unix_ms = 1'000'000;
    rows[0].total_time_ms = 60'000;
    rows[0].host = "n1";
    rows[0].node_list = first_nodes;
    rows[1].started_unix_ms = started_unix_ms;
    rows[1].total_time_ms = 10'000;
    rows[1].host = host;
    rows[1].node_list = nodes;
  };
}

TEST_CASE("each problem of rows is a warning of its own") {
  using Row = ComparisonRow;
  const Change other_loss = set(&Row::loss_last, 3);
  const Change other_batch = second([](Row& row) { row.spec.batch.total = 32; });
  const Change throughput = [](RunRows& rows) {
    for (ComparisonRow& row : rows) row.compare = "throughput";
  };
  const Change no_digests = [](RunRows& rows) { rows[0].loss_digest = rows[1].loss_digest = ""; };
  const auto overlap = at_the_same_time(1'020'000, "n1");
  const std::vector<std::pair<const char*, Change>> cases{
      {"", [](RunRows&) {}},
      {"different_commit", set(&Row::git_commit, "fedcba9876543210")},
      {"different_commit", set(&Row::git_dirty, true)},
      {"different_commit", set(&Row::git_untracked, true)},
      {"different_trainer", set(&Row::trainer_digest, "trainer1")},
      {"different_versions", set(&Row::torch_version, "2.12.0")},
      {"different_versions", set(&Row::driver_version, "580.1")},
      {"different_device", set(&Row::device_name, "another processor")},
      {"different_data",
       both(set(&Row::data_digest, "data1111"), set(&Row::loss_digest, "losses11"))},
      {"different_total_batch", other_batch},
      {"different_steps", set(&Row::steps_planned, 50)},
      // Unknown values, runs that never began and runs without losses do not differ.
      {"", second([](Row& row) {
         row.git_commit = row.trainer_digest = row.torch_version = row.device_name = "";
         row.data_digest = "";
         row.steps_planned.reset();
       })},
      {"", second([](Row& row) {
         row.attempt.reset();
         row.status = RunStatus::kPlanned;
         row.spec.batch.total = 32;
         row.data_digest = "data1111";
       })},
      {"", both(other_batch, second([](Row& row) {
                  row.status = RunStatus::kFailed;
                  row.steps = 0;
                }))},
      {"", both(throughput, both(other_batch, both(set(&Row::steps_planned, 50),
                                                   set(&Row::loss_digest, "losses11"))))},
      {"", last_loss(2.5002, PrecisionKind::kFp32)},
      {"losses_disagree", last_loss(2.501, PrecisionKind::kFp32)},
      {"", last_loss(2.52, PrecisionKind::kBf16Mixed)},
      {"losses_disagree", last_loss(2.54, PrecisionKind::kBf16Mixed)},
      {"losses_disagree", set(&Row::loss_last, std::nullopt)},
      {"", both(other_loss, set(&Row::loss_digest, "losses11"))},
      {"", both(other_loss, no_digests)},
      {"", both(other_loss, set(&Row::status, RunStatus::kInterrupted))},
      {"losses_disagree resumed", both(other_loss, set(&Row::resumed_from_step, 20))},
      {"", set(&Row::steps, 6)},  // 2 of them warm-up
      {"few_steps", set(&Row::steps, 5)},
      {"skipped_steps", set(&Row::skipped_steps, 3)},
      {"lost_events", set(&Row::skipped_lines, 2)},
      {"", set(&Row::trained_tokens_per_second, 7)},
      {"nothing_trained", set(&Row::trained_tokens_per_second, 0)},
      {"", noise(DeviceKind::kCuda, 41)},
      {"noisy_step_times", noise(DeviceKind::kCuda, 43)},
      {"", noise(DeviceKind::kCpu, 104)},
      {"noisy_step_times", noise(DeviceKind::kCpu, 106)},
      {"", busy(5, 400)},  // ranks on too few CPUs wait for each other
      {"", busy(90, 5)},   // nobody waits
      {"busy_host", busy(5.1, 5.1)},
      {"", set(&Row::other_processes, 0)},
      {"other_processes", set(&Row::other_processes, 2)},
      {"", repeats([](RunRows&) {})},
      {"repeats_differ", repeats([](RunRows& rows) { rows[3].status = RunStatus::kFailed; })},
      {"", slow_repeat(400)},
      {"repeats_differ", slow_repeat(430)},
      {"side_by_side", overlap},
      {"side_by_side", at_the_same_time(1'059'999, "n1")},
      {"side_by_side", at_the_same_time(990'001, "n1")},
      {"", at_the_same_time(1'060'000, "n1")},  // one after the other
      {"", at_the_same_time(990'000, "n1")},
      {"", at_the_same_time(1'020'000, "n2")},
      {"side_by_side", at_the_same_time(1'020'000, "n3", "n[1-3]", "n[3-4]")},
      {"side_by_side", at_the_same_time(1'020'000, "n09", "n1,n[08-10]", "n09")},
      {"", at_the_same_time(1'020'000, "n9", "n1,n[08-10]", "n9")},
      {"", at_the_same_time(1'020'000, "n4", "n[1-3]", "n[4-5,7]")},
      {"", both(overlap, set(&Row::status, RunStatus::kInterrupted))},
      {"", both(at_the_same_time(1'020'000, ""), [](RunRows& rows) { rows[0].host.clear(); })},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    CHECK(names_after(cases[i].second) == cases[i].first);
  }
}

TEST_CASE("a warning names the rows and says what to do") {
  using Row = ComparisonRow;
  const std::vector<std::pair<const char*, Change>> cases{
      {"rows are of different commits (4xDDP: 01234567; 4xFSDP: fedcba98); run them again from "
       "one commit, with --rerun",
       set(&Row::git_commit, "fedcba9876543210")},
      {"4xFSDP: 01234567 with changes", set(&Row::git_dirty, true)},
      {"4xFSDP: 01234567, experiment file untracked", set(&Row::git_untracked, true)},
      {"4xDDP 2.5, 4xFSDP 2.75 (step 100)", last_loss(2.75, PrecisionKind::kFp32)},
      {"4xDDP 7.5 (step 1)", [](RunRows& rows) { rows[0].loss_first = 7.5; }},
      {"4xFSDP not finite, 4xDDP 2.5", set(&Row::loss_last, std::nullopt)},
      {"changed nothing: 4xFSDP (3 of 100);", set(&Row::skipped_steps, 3)},
      {"means nothing: 4xFSDP;", set(&Row::trained_tokens_per_second, 0)},
      {"2 lines of the ranks' reports could not be read", set(&Row::skipped_lines, 2)},
      {"fewer than 4 steps after the warm-up: 4xFSDP;", set(&Row::steps, 5)},
      {"other processes took up to 41 % of the CPU time while ranks waited for a CPU: 4xFSDP; end "
       "them, then use --rerun",
       busy(41.4, 120)},
      {"end other programs on the host, and use more steps or --repeats 5",
       noise(DeviceKind::kCuda, 43)},
      {"began: 4xFSDP; end them (nvidia-smi", set(&Row::other_processes, 2)},
      {"times and memory cover only the steps after a checkpoint: 4xFSDP from step 20; --rerun",
       set(&Row::resumed_from_step, 20)},
      {"disturb each other: 4xDDP and 4xFSDP; set slurm.exclusive",
       at_the_same_time(1'020'000, "n1")},
      {"disturb each other: 4xDDP and 8xFSDP; set",
       [](RunRows& rows) {
         rows.push_back(rows[1]);
         rows[2].run = 3;
         rows[2].point = rows[2].series = "8xFSDP";
         for (size_t i = 0; i < rows.size(); ++i) {
           rows[i].host = "n1";
           rows[i].total_time_ms = 10'000;
           rows[i].started_unix_ms = std::vector{1'005'000, 1'015'000, 1'000'000}[i];
         }
       }},
      {"differ: 4xFSDP (2 finished, 1 failed);",
       repeats([](RunRows& rows) { rows[3].status = RunStatus::kFailed; })},
      {"differ: 4xFSDP (step times);", slow_repeat(430)},
      {"4xFSDP, row 0, row 1, 98 more: 01234567",
       [](RunRows& rows) {
         rows[0].git_commit = "another";
         for (int64_t i = 0; i < 100; ++i) {
           rows.push_back(rows[1]);
           rows.back().run = 3 + i;
           rows.back().point = rows.back().series = "row " + std::to_string(i);
         }
       }},
  };
  for (const auto& [text, change] : cases) CHECK_THAT(text_after(change), Catch::Contains(text));
}

TEST_CASE("a warning takes at most three lines of a terminal") {
  Report report;
  report.width = 80;
  for (int64_t i = 0; i < 9; ++i) {
    ComparisonRow row = good_rows()[0];
    row.run = i;
    row.point = row.series = "FSDP batch " + std::to_string(i);
    row.git_commit = row.trainer_digest = row.data_digest = std::to_string(i) + "1234567";
    row.device_name = "NVIDIA A100 " + std::to_string(i);
    row.spec.batch.total = 16 + i;
    row.steps_planned = 100 + i;
    row.steps = 5;
    row.skipped_lines = row.other_processes.emplace(1);
    row.skipped_steps = 3;
    row.trained_tokens_per_second = 0;
    row.step_time_ms_p75 = 1'000;
    row.cpu_time_others_percent = row.run_queue_wait_percent = 50;
    row.resumed_from_step = 20;
    row.loss_last = 2.5 + 0.1 * static_cast<double>(i);
    row.host = "n1";
    row.total_time_ms = 60'000;
    row.started_unix_ms = 1'000'000;
    report.rows.push_back(row);
  }
  const std::string text = table_of(report);
  size_t warnings = 0;
  for (size_t at = text.find("\nWarning:"); at != std::string::npos; ++warnings) {
    const size_t next = text.find("\nWarning:", at + 1);
    const std::string lines = text.substr(at + 1, std::min(next, text.size()) - at - 1);
    INFO(lines);
    if (next != std::string::npos) CHECK(std::ranges::count(lines, '\n') <= 2);
    at = next;
  }
  CHECK(warnings >= 14);
}

TEST_CASE("a warning of merged rows names those whose rows they are") {
  Report report;
  for (const char* person : {"alice", "bob", "carol"}) {
    for (ComparisonRow row : good_rows()) {
      row.run = std::ssize(report.rows) + 1;
      row.source = person;
      row.experiment = row.source + "/lab";
      row.other_processes = row.source == "bob" && row.point == "4xDDP" ? 0 : 1;
      report.rows.push_back(row);
    }
  }
  CHECK_THAT(
      table_of(report),
      Catch::Contains("when these runs began: 4xDDP, 4xFSDP (alice, carol); 4xFSDP (bob); end"));
  for (ComparisonRow& row : report.rows) row.other_processes = 1;
  CHECK_THAT(table_of(report), Catch::Contains("4xDDP, 4xFSDP (everybody); end"));
}

TEST_CASE("a warning is there once, whatever the number of groups") {
  Report report;
  report.rows = good_rows();
  for (ComparisonRow& row : report.rows) row.steps = 3;
  report.view.group = "point";
  const std::string text = table_of(report);
  const std::string warning = "Warning: step times come from fewer than";
  REQUIRE(text.find(warning) != std::string::npos);
  CHECK(text.find(warning) == text.rfind(warning));
  for (const ComparisonRow& row : report.rows) {
    const size_t named = text.find(row.point, text.find(warning));
    CHECK(named < text.find('\n', text.find(warning)));
  }
}

}  // namespace
}  // namespace fsdp
