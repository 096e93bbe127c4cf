#include <nlohmann/json.hpp>

#include "base/text/config_error.h"
#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

using Names = std::vector<std::string>;

// Adds the repeats of a series. Tokens per second follow from the step times.
void add_repeats(Report& report, const std::string& series, std::vector<double> step_times_ms) {
  for (size_t i = 0; i < step_times_ms.size(); ++i) {
    ComparisonRow row = finished_row(static_cast<int64_t>(report.rows.size()) + 1,
                                     series + " #" + std::to_string(i + 1), StrategyKind::kDdp, 4,
                                     step_times_ms[i]);
    row.series = series;
    row.repeat = static_cast<int64_t>(i);
    report.rows.push_back(row);
  }
}

Report repeated_report() {
  Report report;
  add_repeats(report, "slow", {200, 204, 198, 202, 201});
  add_repeats(report, "fast", {100, 101, 99, 102, 103});
  add_repeats(report, "same", {201, 199, 203, 200, 202.5});
  add_repeats(report, "twice", {150, 152});
  return report;
}

nlohmann::json json_of(Report report, std::optional<RowKind> row_kind = std::nullopt) {
  report.row_kind = row_kind;
  return json_rows(report);
}

Names points(const Report& report, std::optional<RowKind> row_kind = RowKind::kSeries) {
  Names names;
  for (const auto& row : json_of(report, row_kind)) names.push_back(row["point"]);
  return names;
}

std::string error_of(const Report& report) {
  try {
    table_of(report);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a row says what little its speed rests on") {
  Report report;
  add_repeats(report, "steps", {200});
  add_repeats(report, "warm-up", {200});
  add_repeats(report, "twice", {200, 201});
  add_repeats(report, "often", {200, 201, 202});
  add_repeats(report, "busy", {200});

  for (ComparisonRow& row : report.rows) row.steps = 3;  // 2 are warm-up
  report.rows[1].steps = 2;
  report.rows.back().steps = 100;
  report.rows.back().cpu_time_others_percent = report.rows.back().run_queue_wait_percent = 50;
  const auto doubts = [&](RowKind kind) {
    Names names;
    for (const auto& row : json_of(report, kind)) {
      names.push_back(row["speed_doubt"].is_null() ? "" : row["speed_doubt"]);
    }
    return names;
  };
  CHECK(doubts(RowKind::kSeries) ==
        Names{"1 step", "2 steps of warm-up", "2 repeats of 1 step", "", "a busy host"});
  CHECK(doubts(RowKind::kRun) == Names{"1 step", "2 steps of warm-up", "1 step", "1 step", "1 step",
                                       "1 step", "1 step", "a busy host"});
  CHECK_THAT(table_of(report), Catch::Contains("not compared: busy #1 (a busy host), ") &&
                                   Catch::Contains("warm-up #1 (2 steps of warm-up)"));
}

TEST_CASE("people see a row of medians for all repeats of a point, programs a row for each") {
  const Report report = repeated_report();
  CHECK(points(report) == Names{"slow", "fast", "same", "twice"});
  CHECK(points(report, std::nullopt).size() == 17);
  const auto fast = json_of(report, RowKind::kSeries)[1];
  CHECK(fast["step_time_ms_median"] == 101);
  CHECK(fast["memory_allocated_bytes_max"] == 3 * kGibibyte);
  CHECK(fast["repeats"] == 5);
  const auto runs = json_of(report);
  CHECK(runs[6]["point"] == "fast #2");
  CHECK(runs[6]["series"] == "fast");
  CHECK(runs[6]["step_time_ms_median"] == 101);
  CHECK(runs[5]["step_time_ms_median"] == 100);

  const std::string table = table_of(report);
  CHECK_THAT(table, Catch::Contains("repeats") && Catch::Contains("\nfast         5  "));
  CHECK_THAT(table, Catch::Contains("Figures of rows with repeats are medians"));
}

TEST_CASE("ratios have an interval over the repeats, and none below three") {
  const auto rows = json_of(repeated_report(), RowKind::kSeries);
  CHECK(rows[1]["tokens_per_second_ratio"] == Approx(201.0 / 101));
  CHECK(rows[1]["tokens_per_second_ratio_low"] > 1.9);
  CHECK(rows[1]["tokens_per_second_ratio_high"] < 2.1);
  CHECK(rows[1]["step_time_ratio"] == Approx(101.0 / 201));
  CHECK(rows[1]["step_time_ratio_high"] < 0.55);
  CHECK(rows[3]["tokens_per_second_ratio"] == Approx(201.0 / 151).epsilon(1e-3));
  CHECK(rows[3]["tokens_per_second_ratio_low"].is_null());
  CHECK(rows[0]["tokens_per_second_ratio"] == 1);
  CHECK(rows[0]["tokens_per_second_ratio_low"].is_null());

  // The ratio is of the run's own figure. The interval is the series'.
  const auto run = json_of(repeated_report())[5];
  CHECK(run["tokens_per_second_ratio"] == Approx(2.01));
  CHECK(run["tokens_per_second_ratio_low"] == rows[1]["tokens_per_second_ratio_low"]);

  const std::string table = table_of(repeated_report());
  CHECK_THAT(table, Catch::Contains("  199 [194, 204]  "));
  CHECK_THAT(table, Catch::Contains("  100 [99, 102] ?  "));
}

TEST_CASE("a series counts what finished, and says how the others ended") {
  Report report = repeated_report();
  report.rows[5].status = RunStatus::kFailed;
  report.rows[5].reason = "a rank died";
  report.rows[5].step_time_ms_median = 7;
  const auto row = json_of(report, RowKind::kSeries)[1];
  CHECK(row["step_time_ms_median"] == 101.5);
  CHECK(row["status"] == "1 failed, 4 finished");
  const std::string table = table_of(report);
  CHECK_THAT(table, Catch::Contains(" 4 of 5 ") && Catch::Contains("fast #1: failed: a rank died"));
}

TEST_CASE("a median of losses counts those that are not finite as the greatest") {
  Report report = repeated_report();
  for (size_t i = 0; i < 5; ++i) {
    report.rows[i].loss_last = 2 + static_cast<double>(i);
    report.rows[i].validation_loss_last = 2 + static_cast<double>(i);
    report.rows[i].token_accuracy_last = 0.5;
  }
  const auto slow = [&] { return json_of(report, RowKind::kSeries)[0]; };
  CHECK(slow()["loss_last"] == 4);
  for (size_t i = 0; i < 2; ++i) {
    report.rows[i].loss_last.reset();
    report.rows[i].validation_loss_last.reset();
  }
  CHECK(slow()["loss_last"] == 6);
  CHECK(slow()["validation_loss_last"] == 6);
  report.rows[2].loss_last.reset();
  report.rows[2].validation_loss_last.reset();
  CHECK(slow()["loss_last"].is_null());
  CHECK(slow()["validation_loss_last"].is_null());
  report.rows[2].steps = 0;  // has no loss: two of the other four are not finite
  CHECK(slow()["loss_last"].is_null());
  report.rows[1].steps = 0;
  CHECK(slow()["loss_last"] == 6);
}

TEST_CASE("a series of which none finished has the figures there are and is no baseline") {
  Report report = repeated_report();
  CHECK_THAT(table_of(report), !Catch::Contains("if none finished"));
  for (size_t i = 0; i < 5; ++i) report.rows[i].status = RunStatus::kOutOfMemory;
  CHECK_THAT(table_of(report),
             Catch::Contains("over the finished repeats, or over all repeats if none finished."));
  const auto rows = json_of(report, RowKind::kSeries);
  CHECK(rows[0]["step_time_ms_median"] == 201);
  CHECK(rows[0]["status"] == "out_of_memory");
  CHECK(rows[1]["tokens_per_second_ratio"] == 1);
  for (const char* ratio : {"tokens_per_second_ratio", "step_time_ratio", "memory_allocated_ratio",
                            "tokens_per_second_ratio_low"}) {
    CHECK(rows[0][ratio].is_null());
  }
}

TEST_CASE("runs that did not finish have figures and no ratios") {
  Report report;
  report.rows = {finished_row(1, "done", StrategyKind::kSingle, 1, 100),
                 finished_row(2, "full", StrategyKind::kDdp, 4, 50)};
  report.rows[1].status = RunStatus::kOutOfMemory;
  for (const RowKind kind : {RowKind::kRun, RowKind::kSeries}) {
    const auto row = json_of(report, kind)[1];
    CHECK(row["memory_allocated_bytes_max"].is_number());
    CHECK(row["memory_allocated_ratio"].is_null());
    CHECK(row["tokens_per_second_ratio"].is_null());
    CHECK(row["step_time_ratio"].is_null());
  }
}

TEST_CASE("what the interval of a ratio is stands below the table") {
  const std::string interval = "95 % interval over the repeats";
  const std::string range = "least and greatest of the repeats";
  Report report = repeated_report();
  CHECK_THAT(table_of(report), Catch::Contains(interval + "\n") && !Catch::Contains(range));
  std::erase_if(report.rows, [](const ComparisonRow& run) {
    return run.point == "slow #4" || run.point == "slow #5";
  });
  CHECK_THAT(table_of(report), Catch::Contains(": " + range + "\n") && !Catch::Contains("95 %"));
}

TEST_CASE("--baseline names a point, a series or the beginning of its name") {
  Report report = repeated_report();
  report.view.baseline = "fast";
  CHECK(json_of(report, RowKind::kSeries)[1]["tokens_per_second_ratio"] == 1);
  CHECK_THAT(table_of(report), Catch::Contains("  fast  "));
  report.view.baseline = "fast #3";
  CHECK(json_of(report, RowKind::kSeries)[1]["tokens_per_second_ratio"] == 1);
  report.view.baseline = "fest";
  CHECK(error_of(report) == "--baseline: there is no point 'fest'; did you mean 'fast'?");

  Report swept;
  swept.rows = {finished_row(1, "FSDP size=1", StrategyKind::kFsdp, 4, 100),
                finished_row(2, "DDP size=1", StrategyKind::kDdp, 4, 200),
                finished_row(3, "DDP size=2", StrategyKind::kDdp, 4, 300)};
  swept.view.baseline = "DDP";
  CHECK(json_of(swept)[1]["tokens_per_second_ratio"] == 1);
  swept.view.baseline = "DDP size=2";
  CHECK(json_of(swept)[2]["tokens_per_second_ratio"] == 1);
  swept.rows[2].status = RunStatus::kOutOfMemory;
  CHECK_THAT(table_of(swept), Catch::Contains("baseline: DDP size=2, which has not finished\n"));
}

TEST_CASE("--group makes blocks with a baseline each") {
  Report report;
  report.rows = {finished_row(1, "FSDP 1", StrategyKind::kFsdp, 4, 100),
                 finished_row(2, "DDP 1", StrategyKind::kDdp, 4, 200),
                 finished_row(3, "FSDP 2", StrategyKind::kFsdp, 4, 50),
                 finished_row(4, "DDP 2", StrategyKind::kDdp, 4, 150)};
  report.view.group = "strategy";
  report.view.wide = true;
  CHECK(points(report) == Names{"FSDP 1", "FSDP 2", "DDP 1", "DDP 2"});
  const auto rows = json_of(report);
  CHECK(rows[0]["tokens_per_second_ratio"] == 1);
  CHECK(rows[1]["tokens_per_second_ratio"] == 2);
  CHECK(rows[2]["tokens_per_second_ratio"] == 1);
  const std::string table = table_of(report);
  CHECK_THAT(table, Catch::Contains("\n\nstrategy: fsdp\nLlama, fp32, ") &&
                        Catch::Contains("Speed:  FSDP 2 is fastest, 81900 tokens/s; next is FSDP "
                                        "1, 41000 tokens/s\n") &&
                        Catch::Contains("\n\nstrategy: ddp\nLlama, fp32, ") &&
                        Catch::Contains("first row of a block that finished: FSDP 1, DDP 1."));
  CHECK_THAT(render(Format::kMarkdown, report),
             Catch::Contains("\n#### strategy: ddp\n\nLlama, fp32, "));
  CHECK_THAT(render(Format::kLatex, report),
             Catch::Contains("\\midrule\n\\multicolumn{8}{l}{\\itshape strategy: ddp} \\\\\n"));

  report.view.baseline = "DDP 2";  // is the baseline of the other block, too
  CHECK(json_of(report)[0]["tokens_per_second_ratio"] == 1.5);
  CHECK(json_of(report)[2]["tokens_per_second_ratio"] == 0.75);
  report.view.sort = "-tokens_per_second";
  CHECK(points(report) == Names{"FSDP 2", "FSDP 1", "DDP 2", "DDP 1"});
  report.view.group = "stratgy";
  CHECK_THAT(error_of(report), Catch::Contains("--group: there is no column 'stratgy'"));
}

TEST_CASE("--sort orders by numbers, by text, and leaves what is absent last") {
  Report report;
  report.rows = {finished_row(1, "b", StrategyKind::kDdp, 4, 90),
                 finished_row(2, "c", StrategyKind::kDdp, 16, 100),
                 finished_row(3, "a", StrategyKind::kDdp, 8, 110)};
  const auto sorted = [&](const std::string& column) {
    report.view.sort = column;
    return points(report);
  };
  CHECK(sorted("ranks") == Names{"b", "a", "c"});
  CHECK(sorted("-ranks") == Names{"c", "a", "b"});
  CHECK(sorted("point") == Names{"a", "b", "c"});
  CHECK(sorted("-point") == Names{"c", "b", "a"});
  report.rows[0].loss_last.reset();
  report.rows[1].loss_last = 3;
  CHECK(sorted("loss_last") == Names{"a", "c", "b"});
  CHECK(sorted("-loss_last") == Names{"c", "a", "b"});
  CHECK(json_of(report)[1]["tokens_per_second_ratio"] == Approx(90.0 / 110));
  report.view.sort = "-rank";
  CHECK_THAT(error_of(report),
             Catch::Contains("--sort") && Catch::Contains("did you mean 'ranks'"));
}

TEST_CASE("--where keeps the rows that meet every condition, and no figure changes") {
  Report report;
  report.rows = {finished_row(1, "1 GPU", StrategyKind::kSingle, 1, 100),
                 finished_row(2, "4xDDP", StrategyKind::kDdp, 4, 50),
                 finished_row(3, "4xFSDP", StrategyKind::kFsdp, 4, 80)};
  report.rows[2].loss_last.reset();
  report.rows[2].memory_allocated_bytes_max = kGibibyte;
  const auto kept = [&](Names conditions) {
    report.view.where = std::move(conditions);
    return points(report);
  };
  CHECK(kept({"ranks = 4"}) == Names{"4xDDP", "4xFSDP"});
  CHECK(kept({"ranks != 4"}) == Names{"1 GPU"});
  CHECK(kept({"ranks>1", "step_time_ms_median <= 50"}) == Names{"4xDDP"});
  CHECK(kept({"step_time_ms_median < 0.08 s"}) == Names{"4xDDP"});
  CHECK(kept({"memory_allocated_bytes_max >= 1.5 GiB"}) == Names{"1 GPU", "4xDDP"});
  CHECK(kept({"memory GiB < 1.5"}) == Names{"4xFSDP"});
  CHECK(kept({"memory < 1.5"}) == Names{"4xFSDP"});
  CHECK(kept({"memory < 1536 MiB"}) == Names{"4xFSDP"});
  CHECK(kept({"point ~ fsdp"}) == Names{"4xFSDP"});
  CHECK(kept({"point == 1 GPU"}) == Names{"1 GPU"});
  CHECK(kept({"loss_last ="}) == Names{"4xFSDP"});
  CHECK(kept({"loss_last !="}) == Names{"1 GPU", "4xDDP"});
  CHECK(kept({"loss_last < 9"}) == Names{"1 GPU", "4xDDP"});
  CHECK(kept({"loss_last != 9"}) == Names{"1 GPU", "4xDDP", "4xFSDP"});
  CHECK(kept({"tokens_per_second_ratio > 1.5"}) == Names{"4xDDP"});
  CHECK(kept({"ranks = 5"}).empty());
  CHECK_THAT(table_of(report), Catch::Contains("No row matches --where \"ranks = 5\". Without it "
                                               "there are 3 rows."));

  kept({"ranks = 4"});
  CHECK(json_of(report)[0]["tokens_per_second_ratio"] == 2);
  CHECK_THAT(table_of(report), Catch::Contains("% of"));
}

TEST_CASE("a row that cannot be compared by speed has no ratio, in no view") {
  const std::function<void(ComparisonRow&)> doubts[] = {
      [](auto& row) { row.steps = 4; },
      [](auto& row) { row.cpu_time_others_percent = row.run_queue_wait_percent = 50; }};
  for (const auto& doubt : doubts) {
    Report report = lab_report();
    doubt(report.rows[0]);
    for (const RowKind kind : {RowKind::kSeries, RowKind::kRun}) {
      for (const auto& row : json_of(report, kind)) {
        CHECK(row["tokens_per_second_ratio"].is_null());
        CHECK(row["step_time_ratio"].is_null());
        CHECK(row["scaling_efficiency_percent"].is_null());
      }
    }
    CHECK_FALSE(json_of(report)[1]["memory_allocated_ratio"].is_null());
    report.view.where = {"tokens_per_second_ratio > 0"};
    CHECK(json_of(report).empty());
  }
}

TEST_CASE("a condition that makes no sense is refused with what is allowed") {
  Report report = lab_report();
  const auto refused = [&](const std::string& condition) {
    report.view.where = {condition};
    return error_of(report);
  };
  CHECK(refused("ranks") ==
        "--where: 'ranks' is not COLUMN OP VALUE; OP is one of = != < <= > >= ~");
  CHECK_THAT(refused("ranks => 4"), Catch::Contains("a number with '> 4'"));
  CHECK_THAT(refused("ranks ! 4"), Catch::Contains("has the operator '!'; allowed: = != <"));
  CHECK_THAT(refused("rank = 4"), Catch::Contains("no column 'rank'"));
  CHECK_THAT(refused("ranks = four"), Catch::Contains("a number with 'four'; VALUE is a number"));
  CHECK_THAT(refused("memory_allocated_bytes_max < 4 GB"),
             Catch::Contains("or one with bytes, KiB, MiB, GiB"));
  CHECK_THAT(refused("ranks ~ 4"), Catch::Contains("uses ~ on a number"));
  CHECK_THAT(refused("ranks <"), Catch::Contains("has no VALUE"));
  CHECK_THAT(refused("point < b"), Catch::Contains("allowed for 'point': = != ~"));
}

TEST_CASE("--columns chooses, orders and adds columns in every format") {
  Report report = lab_report();
  report.view.columns = {"ranks", "point", "memory_allocated_bytes_forward_max"};
  report.rows[0].memory_allocated_bytes_forward_max = 2 * kGibibyte;
  CHECK_THAT(render(Format::kCsv, report),
             Catch::StartsWith("ranks,point,memory_allocated_bytes_forward_max\r\n"
                               "1,1 GPU,2147483648\r\n4,"));
  CHECK_THAT(render(Format::kMarkdown, report),
             Catch::Contains("| ranks | point | memory allocated forward max GiB |\n") &&
                 Catch::Contains("\n| 1 | 1 GPU | 2.00 |\n") &&
                 Catch::Contains("\n| 4 | offload | - |\n"));
  report.view.columns = {"+hash8"};
  CHECK_THAT(render(Format::kMarkdown, report),
             Catch::Contains("| point |") && Catch::Contains("| hash8 |"));
  CHECK_THAT(render(Format::kCsv, report), Catch::StartsWith("experiment,"));
  report.view.columns = {"point", "steps_per_secnd"};
  CHECK_THAT(error_of(report), Catch::Contains("--columns: there is no column 'steps_per_secnd'") &&
                                   Catch::Contains("did you mean 'steps_per_second'?"));
}

TEST_CASE("total batch and steps are columns where throughput is compared") {
  Report report = lab_report();
  report.view.wide = true;
  CHECK(render(Format::kMarkdown, report).find("| total batch |") == std::string::npos);
  report.rows[0].compare = "throughput";
  CHECK_THAT(render(Format::kMarkdown, report),
             Catch::Contains("| total batch |") && Catch::Contains("| steps |"));
}

TEST_CASE("GPU-hours, energy, communication and utilization are shown where there are some") {
  Report report = lab_report();
  report.view.wide = true;
  ComparisonRow& row = report.rows[1];
  for (const std::string heading :
       {"GPU- hours", "energy kJ", "communication ms", "GPU %", "CPU %"}) {
    CHECK(render(Format::kMarkdown, report).find(heading) == std::string::npos);
  }
  row.spec.device = DeviceKind::kCuda;
  row.held.gpu_time_ms = 7'200'000;
  row.energy_joules = 1'234'500;
  row.communication_time_ms_median = 12.5;
  row.gpu_utilization_percent_mean = 97.25;
  row.cpu_utilization_percent_mean = 12.5;
  const std::string text = render(Format::kMarkdown, report);
  CHECK_THAT(text, Catch::Contains("| 12.5 | 4.88 |"));
  CHECK_THAT(text, Catch::Contains("| 2.00 | 97.2 | 12.5 | 1234 |") ||
                       Catch::Contains("| 2.00 | 97.2 | 12.5 | 1235 |"));
  CHECK(json_of(report)[1]["gpu_hours"] == 2);
  CHECK(json_of(report)[0]["gpu_hours"].is_null());
}

TEST_CASE("what jobs held over all attempts is told below the table") {
  Report report = lab_report();
  CHECK(table_of(report).find("Held") == std::string::npos);
  report.rows[0].held = {.node_time_ms = 1'800'000};
  CHECK_THAT(table_of(report), Catch::Contains("Over all attempts, jobs held 0.500 node-hours."));
  report.rows[1].held = {.gpu_time_in_jobs_ms = 14'400'000,
                         .gpu_time_of_ranks_ms = 7'200'000,
                         .node_time_ms = 3'600'000};
  report.rows[2].held = {.gpu_time_ms = 3'600'000};  // not in a job
  CHECK_THAT(table_of(report),
             Catch::Contains("Over all attempts, jobs held 4.00 GPU-hours (ranks used 2.00 "
                             "GPU-hours) and 1.50 node-hours."));
}

TEST_CASE("what a job's run used is told, and which request was too large") {
  Report report = lab_report();
  report.view.wide = true;
  ComparisonRow& row = report.rows[1];
  row.spec.slurm.cpus_per_task = 8;
  row.spec.slurm.mem = "64G";
  row.cpu_cores_used_max = 1.2;
  row.memory_node_bytes_max = int64_t{12} << 30;
  row.gpu_utilization_percent_mean = 93.4;
  row.device_memory_bytes = int64_t{80} << 30;
  row.memory_reserved_bytes_max = int64_t{41} << 30;
  CHECK(use_of_requests(row).empty());  // not in a job
  row.slurm_job = "12";
  const std::string used = row.point +
                           " used GPUs busy 93 %, 41.0 of 80.0 GiB of a GPU, 1.2 of 8 CPUs a rank, "
                           "12.0 of 64.0 GiB of a node's memory";
  CHECK(use_of_requests(row) ==
        used + "; asked too much: slurm.cpus_per_task: 2 is enough, slurm.mem: 15G is enough.");
  CHECK_THAT(table_of(report), Catch::Contains("asked too much"));
  row.spec.slurm.cpus_per_task = 2;
  row.spec.slurm.mem = "16G";
  CHECK_THAT(use_of_requests(row), Catch::EndsWith("1.2 of 2 CPUs a rank, 12.0 of 16.0 GiB of a "
                                                   "node's memory."));
  CHECK(use_of_requests(row, /*only_if_too_large=*/true).empty());
  row.cpu_cores_used_max.reset();
  row.memory_node_bytes_max.reset();
  row.gpu_utilization_percent_mean.reset();
  row.device_memory_bytes.reset();
  CHECK(use_of_requests(row).empty());
}

}  // namespace
}  // namespace fsdp
