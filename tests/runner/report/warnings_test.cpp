#include <algorithm>
#include <functional>

#include "runner/answers/answers.h"
#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

// Two rows that need no warning.
std::vector<ComparisonRow> good_rows() {
  std::vector<ComparisonRow> rows{finished_row(1, "4xDDP", StrategyKind::kDdp, 4, 200),
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

std::vector<Warning> warnings_of(const std::vector<ComparisonRow>& rows) {
  const std::deque<Series> all = series_of(rows);
  SeriesRows pointers;
  for (const Series& series : all) pointers.push_back(&series);
  return warnings_for({pointers});
}

TEST_CASE("nothing is said of losses of rows that have none") {
  std::vector<ComparisonRow> rows = good_rows();
  for (ComparisonRow& row : rows) row.status = RunStatus::kFailed;
  rows[1].total_batch = 32;
  rows[1].steps_planned = 50;
  CHECK(warnings_of(rows).size() == 2);
  rows[1].steps = 0;
  CHECK(warnings_of(rows).empty());
}

TEST_CASE("rows of an untracked experiment file are not of the commit") {
  std::vector<ComparisonRow> rows = good_rows();
  rows[1].git_untracked = true;
  const std::vector<Warning> warnings = warnings_of(rows);
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0].text, Catch::Contains("4xDDP: 01234567; 4xFSDP: 01234567, experiment file "
                                               "untracked"));
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
      render(Format::kTable, report),
      Catch::Contains("when these runs began: 4xDDP, 4xFSDP (alice, carol); 4xFSDP (bob); end"));
  for (ComparisonRow& row : report.rows) row.other_processes = 1;
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("4xDDP, 4xFSDP (everybody); end"));
  report.rows.resize(2);
  for (ComparisonRow& row : report.rows) row.source.clear();
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("began: 4xDDP, 4xFSDP; end these"));
}

TEST_CASE("a warning is there once, whatever the number of groups") {
  std::vector<ComparisonRow> rows = good_rows();
  for (ComparisonRow& row : rows) row.steps = 3;
  Report report;
  report.rows = rows;
  report.view.group = "point";
  const std::string text = render(Format::kTable, report);
  const std::string warning = "Warning: step times come from fewer than";
  REQUIRE(text.find(warning) != std::string::npos);
  CHECK(text.find(warning) == text.rfind(warning));
  for (const ComparisonRow& row : rows) {
    const size_t named = text.find(row.point, text.find(warning));
    CHECK(named < text.find('\n', text.find(warning)));
  }
}

using Change = std::function<void(std::vector<ComparisonRow>&)>;

// The names of the warnings after the change.
std::vector<std::string> names_after(const Change& change) {
  std::vector<ComparisonRow> rows = good_rows();
  change(rows);
  std::vector<std::string> names;
  for (const Warning& warning : warnings_of(rows)) names.push_back(warning.name);
  return names;
}

// The text of the only warning after the change.
std::string text_after(const Change& change) {
  std::vector<ComparisonRow> rows = good_rows();
  change(rows);
  const std::vector<Warning> warnings = warnings_of(rows);
  REQUIRE(warnings.size() == 1);
  return warnings.front().text;
}

using Names = std::vector<std::string>;

TEST_CASE("rows of one origin are not warned of") {
  CHECK(names_after([](auto&) {}).empty());
}

TEST_CASE("each difference in where rows come from is a warning of its own with a remedy") {
  const std::vector<std::pair<std::string, Change>> cases = {
      {"different_commit", [](auto& rows) { rows[1].git_commit = "fedcba9876543210"; }},
      {"different_commit", [](auto& rows) { rows[1].git_dirty = true; }},
      {"different_trainer", [](auto& rows) { rows[1].trainer_digest = "trainer1"; }},
      {"different_versions", [](auto& rows) { rows[1].torch_version = "2.12.0"; }},
      {"different_versions", [](auto& rows) { rows[1].driver_version = "580.1"; }},
      {"different_device", [](auto& rows) { rows[1].device_name = "another processor"; }},
      {"different_data",
       [](auto& rows) {
         rows[1].data_digest = "data1111";
         rows[1].loss_digest = "losses11";
       }},
      {"different_total_batch", [](auto& rows) { rows[1].total_batch = 32; }},
      {"different_steps", [](auto& rows) { rows[1].steps_planned = 50; }},
  };
  for (const auto& [name, change] : cases) {
    INFO(name);
    CHECK(names_after(change) == Names{name});
  }
  CHECK(text_after(cases[0].second) ==
        "rows were run from different commits (4xDDP: 01234567; 4xFSDP: fedcba98); run them again "
        "from one commit, with --rerun");
  CHECK_THAT(text_after(cases[1].second), Catch::Contains("4xFSDP: 01234567 with changes"));
}

TEST_CASE("what is not known, and a run that never began, is no difference") {
  CHECK(names_after([](auto& rows) {
          rows[1].git_commit.clear();
          rows[1].trainer_digest.clear();
          rows[1].torch_version.clear();
          rows[1].device_name.clear();
          rows[1].data_digest.clear();
          rows[1].steps_planned.reset();
        }).empty());
  CHECK(names_after([](auto& rows) {
          rows[1].attempt.reset();
          rows[1].status = RunStatus::kPlanned;
          rows[1].total_batch = 32;
          rows[1].data_digest = "data1111";
        }).empty());
}

TEST_CASE("total batch and steps may differ where throughput is compared") {
  CHECK(names_after([](auto& rows) {
          for (ComparisonRow& row : rows) row.compare = "throughput";
          rows[1].total_batch = 32;
          rows[1].steps_planned = 50;
          rows[1].loss_digest = "losses11";
        }).empty());
}

TEST_CASE("losses that must be equal and are not are a warning, within the precision") {
  const auto loss_of_second = [](double loss, const std::string& precision) {
    return [=](std::vector<ComparisonRow>& rows) {
      for (ComparisonRow& row : rows) row.precision = precision;
      rows[1].loss_last = loss;
    };
  };
  CHECK(names_after(loss_of_second(2.5002, "fp32")).empty());
  CHECK(names_after(loss_of_second(2.5004, "fp32")) == Names{"losses_disagree"});
  CHECK(names_after(loss_of_second(2.54, "bf16_mixed")).empty());
  CHECK(names_after(loss_of_second(2.56, "bf16_mixed")) == Names{"losses_disagree"});
  CHECK_THAT(text_after(loss_of_second(2.75, "fp32")),
             Catch::Contains("4xDDP 2.5, 4xFSDP 2.75 (step 100)") &&
                 Catch::Contains("0.0001 in fp32 and 0.02 in other precisions"));
  CHECK_THAT(text_after([](auto& rows) { rows[0].loss_first = 7.5; }),
             Catch::Contains("4xDDP 7.5 (step 1)"));
}

TEST_CASE("losses are not compared where something that decides them differs") {
  const Change other_loss = [](auto& rows) { rows[1].loss_last = 3; };
  const auto with = [&](const Change& change) {
    return names_after([&](auto& rows) {
      other_loss(rows);
      change(rows);
    });
  };
  CHECK(with([](auto&) {}) == Names{"losses_disagree"});
  CHECK(with([](auto& rows) { rows[1].loss_digest = "losses11"; }).empty());
  CHECK(with([](auto& rows) { rows[0].loss_digest = rows[1].loss_digest = ""; }).empty());
  CHECK(with([](auto& rows) { rows[1].status = RunStatus::kInterrupted; }).empty());
}

TEST_CASE("losses of resumed runs and losses that are not finite are compared too") {
  CHECK_THAT(text_after([](auto& rows) { rows[1].loss_last.reset(); }),
             Catch::Contains("4xFSDP not finite, 4xDDP "));
  CHECK(names_after([](auto& rows) {
          rows[1].loss_last = 3;
          rows[1].resumed_from_step = 20;
        }) == Names{"losses_disagree", "resumed"});
}

TEST_CASE("too few steps, lost events, noise, other processes and checkpoints are warned of") {
  const auto steps = [](int64_t count) {
    return [=](std::vector<ComparisonRow>& rows) { rows[1].steps = count; };
  };
  CHECK(names_after(steps(6)).empty());  // 2 of them warm-up
  CHECK(names_after(steps(5)) == Names{"few_steps"});
  const auto skipped = [](auto& rows) { rows[1].skipped_steps = 3; };
  CHECK(names_after(skipped) == Names{"skipped_steps"});
  CHECK_THAT(text_after(skipped), Catch::Contains("not finite: 4xFSDP (3 of "));
  CHECK(names_after([](auto& rows) { rows[1].skipped_lines = 2; }) == Names{"lost_events"});
  CHECK(names_after([](auto& rows) { rows[1].trained_tokens_per_second = 7; }).empty());
  const auto nothing = [](auto& rows) { rows[1].trained_tokens_per_second = 0; };
  CHECK(names_after(nothing) == Names{"nothing_trained"});
  CHECK_THAT(text_after(nothing), Catch::Contains("means nothing: 4xFSDP;"));
  const auto noise = [](DeviceKind device, double range_ms) {
    return [=](std::vector<ComparisonRow>& rows) {
      for (ComparisonRow& row : rows) row.device = device;
      rows[1].step_time_ms_p75 = *rows[1].step_time_ms_p25 + range_ms;
    };
  };
  CHECK(names_after(noise(DeviceKind::kCuda, 41)).empty());
  CHECK(names_after(noise(DeviceKind::kCuda, 43)) == Names{"noisy_step_times"});
  CHECK(names_after(noise(DeviceKind::kCpu, 104)).empty());
  CHECK(names_after(noise(DeviceKind::kCpu, 106)) == Names{"noisy_step_times"});
  const auto busy = [](double others_percent, double wait_percent) {
    return [=](std::vector<ComparisonRow>& rows) {
      rows[1].cpu_time_others_percent = others_percent;
      rows[1].run_queue_wait_percent = wait_percent;
    };
  };
  CHECK(names_after(busy(5, 400)).empty());  // ranks on too few CPUs wait for each other
  CHECK(names_after(busy(90, 5)).empty());   // nobody waits
  CHECK(names_after(busy(5.1, 5.1)) == Names{"busy_host"});
  CHECK_THAT(
      text_after(busy(41.4, 120)),
      Catch::Contains(
          "4xFSDP (others took 41 % of the CPU time, ranks waited 120 % of the step time);") &&
          Catch::Contains("--rerun"));
  CHECK(names_after([](auto& rows) { rows[0].other_processes = 0; }).empty());
  CHECK_THAT(text_after([](auto& rows) { rows[0].other_processes = 2; }),
             Catch::Contains("when these runs began: 4xDDP;") && Catch::Contains("nvidia-smi"));
  CHECK(text_after([](auto& rows) { rows[1].resumed_from_step = 20; }) ==
        "times and memory cover only the steps after a checkpoint: 4xFSDP from step 20; --rerun "
        "trains from the beginning");
}

TEST_CASE("runs that ran at the same time on the same node are warned of") {
  const auto second = [](int64_t started_unix_ms, const std::string& host,
                         const std::string& first_nodes = "", const std::string& nodes = "") {
    return [=](std::vector<ComparisonRow>& rows) {
      rows[0].started_unix_ms = 1'000'000;
      rows[0].total_time_ms = 60'000;
      rows[0].host = "n1";
      rows[0].node_list = first_nodes;
      rows[1].started_unix_ms = started_unix_ms;
      rows[1].total_time_ms = 10'000;
      rows[1].host = host;
      rows[1].node_list = nodes;
    };
  };
  CHECK(text_after(second(1'059'999, "n1")) ==
        "runs shared a node at the same time: 4xDDP and 4xFSDP; they disturb each other's timings: "
        "set slurm.exclusive or slurm.mode: allocation, or leave --max-parallel at 1");
  CHECK(names_after(second(1'020'000, "n1")) == Names{"side_by_side"});
  CHECK(names_after(second(990'001, "n1")) == Names{"side_by_side"});
  CHECK(names_after(second(1'060'000, "n1")).empty());  // one after the other
  CHECK(names_after(second(990'000, "n1")).empty());
  CHECK(names_after(second(1'020'000, "n2")).empty());
  CHECK(names_after(second(1'020'000, "n3", "n[1-3]", "n[3-4]")) == Names{"side_by_side"});
  CHECK(names_after(second(1'020'000, "n09", "n1,n[08-10]", "n09")) == Names{"side_by_side"});
  CHECK(names_after(second(1'020'000, "n9", "n1,n[08-10]", "n9")).empty());
  CHECK(names_after(second(1'020'000, "n4", "n[1-3]", "n[4-5,7]")).empty());
  CHECK(names_after([&](auto& rows) {
          second(1'020'000, "n1")(rows);
          rows[1].status = RunStatus::kInterrupted;
        }).empty());
  CHECK(names_after([&](auto& rows) {
          second(1'020'000, "")(rows);
          rows[0].host.clear();
        }).empty());
}

TEST_CASE("of several runs those are named that ran at the same time") {
  const std::string text = text_after([](auto& rows) {
    rows.push_back(rows[1]);
    rows[2].run = 3;
    rows[2].point = rows[2].series = "8xFSDP";
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].host = "n1";
      rows[i].total_time_ms = 10'000;
    }
    rows[0].started_unix_ms = 1'005'000;
    rows[1].started_unix_ms = 1'015'000;
    rows[2].started_unix_ms = 1'000'000;
  });
  CHECK_THAT(text, Catch::Contains("time: 4xDDP and 8xFSDP; they"));
}

TEST_CASE("repeats that do not end alike, or take different times, are warned of") {
  const auto three_repeats = [](const Change& change) {
    return [=](std::vector<ComparisonRow>& rows) {
      const ComparisonRow first = rows[1];
      for (int64_t repeat = 0; repeat < 3; ++repeat) {
        if (repeat > 0) rows.push_back(first);
        ComparisonRow& row = rows.back();
        row.run = 2 + repeat;
        row.repeat = repeat;
        row.point = "4xFSDP #" + std::to_string(repeat + 1);
      }
      change(rows);
    };
  };
  CHECK(names_after(three_repeats([](auto&) {})).empty());
  CHECK(names_after(three_repeats([](auto& rows) { rows[3].status = RunStatus::kFailed; })) ==
        Names{"repeats_differ"});
  CHECK_THAT(text_after(three_repeats([](auto& rows) { rows[3].status = RunStatus::kFailed; })),
             Catch::Contains("differ: 4xFSDP (2 finished, 1 failed);"));
  const auto slow = [&](double step_time_ms) {
    return three_repeats([=](std::vector<ComparisonRow>& rows) {
      rows[3].step_time_ms_median = step_time_ms;  // upper quartile: half way from 210
    });
  };
  CHECK(names_after(slow(400)).empty());
  CHECK_THAT(text_after(slow(430)), Catch::Contains("4xFSDP (step times)"));
}

TEST_CASE("a long list of rows is cut short") {
  const std::string text = text_after([](auto& rows) {
    rows[0].git_commit = "another";
    for (int64_t i = 0; i < 100; ++i) {
      rows.push_back(rows[1]);
      rows.back().run = 3 + i;
      rows.back().point = rows.back().series = "row " + std::to_string(i);
    }
  });
  CHECK_THAT(text, Catch::Contains("4xFSDP, row 0, row 1, row 2, row 3, row 4, row 5 and 94 more"));
}

}  // namespace
}  // namespace fsdp
