#include "runner/report/report.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runner/report/columns.h"
#include "runner/report/figures.h"

namespace fsdp {
namespace {

constexpr int64_t kGibibyte = int64_t{1} << 30;

ComparisonRow finished_row(int64_t run, const std::string& point, StrategyKind strategy,
                           int64_t ranks, double step_time_ms) {
  ComparisonRow row;
  row.experiment = "lab";
  row.run = run;
  row.hash8 = "0123abcd";
  row.position = run - 1;
  row.point = point;
  row.strategy = strategy;
  if (strategy == StrategyKind::kFsdp) row.sharding = "full_shard";
  row.wrap = "transformer_block";
  row.precision = "fp32";
  row.ranks = ranks;
  row.batch_size_per_rank = 4;
  row.gradient_accumulation_steps = 4 / ranks;
  row.total_batch = 16;
  row.device = DeviceKind::kCpu;
  row.sequence_length = 256;
  row.warmup_steps_excluded = 2;
  row.folder = "runs/lab/point-0123abcd";
  row.attempt = 1;
  row.status = RunStatus::kFinished;
  row.device_name = "a processor";
  row.resumed_from_step = 0;
  row.steps = 100;
  row.skipped_steps = 0;
  row.non_finite_steps = 0;
  row.step_time_ms_median = step_time_ms;
  row.step_time_ms_p25 = step_time_ms - 1.25;
  row.step_time_ms_p75 = step_time_ms + 2;
  row.steps_per_second = 1000 / step_time_ms;
  row.micro_batches_per_second = 4000 / step_time_ms;
  row.tokens_per_second = 4096 * 1000 / step_time_ms;
  row.memory_allocated_bytes_max = 3 * kGibibyte;
  row.memory_allocated_bytes_min = 3 * kGibibyte;
  row.memory_reserved_bytes_max = 4 * kGibibyte;
  row.memory_reserved_bytes_min = 4 * kGibibyte;
  row.loss_first = 6.931471805599453;
  row.loss_last = 2.5;
  row.total_time_ms = 83'456;
  row.start_up_time_ms = 1'234.5;
  return row;
}

Report lab_report() {
  Report report;
  report.title = "A lab, with | and \"quotes\"";
  report.results = "results";
  report.rows = {finished_row(1, "1 GPU", StrategyKind::kSingle, 1, 512.5),
                 finished_row(2, "4×DDP", StrategyKind::kDdp, 4, 205),
                 finished_row(3, "FSDP, batch 8 実験", StrategyKind::kFsdp, 4, 99.95),
                 finished_row(4, "offload", StrategyKind::kFsdp, 4, 30),
                 finished_row(5, "does not fit", StrategyKind::kFsdp, 4, 30),
                 {}};
  report.rows[2].memory_allocated_bytes_max = kGibibyte + kGibibyte / 4;
  report.rows[2].memory_allocated_bytes_min = kGibibyte;
  report.rows[3].offload = Offload::kOptimizer;
  report.rows[3].status = RunStatus::kFailed;
  report.rows[3].reason = "rank 2 killed by signal 9";
  report.rows[3].reason_rank = 2;
  report.rows[3].loss_last.reset();

  ComparisonRow& no_room = report.rows[4];
  no_room.status = RunStatus::kOutOfMemory;
  no_room.reason = "rank 0: 79.0 GiB are all in use, 1.2 GiB asked for";
  no_room.steps = 0;
  for (auto* figure :
       {&no_room.step_time_ms_median, &no_room.step_time_ms_p25, &no_room.step_time_ms_p75,
        &no_room.steps_per_second, &no_room.micro_batches_per_second, &no_room.tokens_per_second,
        &no_room.loss_first, &no_room.loss_last, &no_room.start_up_time_ms}) {
    figure->reset();
  }
  report.rows[5].experiment = "lab";
  report.rows[5].run = 6;
  report.rows[5].position = 5;
  report.rows[5].point = "not yet";
  report.rows[5].batch_size_per_rank = 4;
  report.rows[5].gradient_accumulation_steps = 4;
  report.notes = {"A note of the caller's."};
  return report;
}

// What a run can do beyond the lab.
Report training_report() {
  Report report;
  report.results = "results";
  report.rows = {finished_row(1, "plain", StrategyKind::kFsdp, 2, 100),
                 finished_row(2, "evaluated", StrategyKind::kFsdp, 2, 100),
                 finished_row(3, "resumed", StrategyKind::kFsdp, 4, 100)};
  ComparisonRow& evaluated = report.rows[1];
  evaluated.sharding = "shard_grad_op";
  evaluated.wrap = "blocks 2";
  evaluated.prefetch = 2;
  evaluated.limit_all_gathers = false;
  evaluated.precision = "bf16_mixed";
  evaluated.optimizer = OptimizerKind::kSgd;
  evaluated.schedule = ScheduleKind::kCosine;
  evaluated.skipped_steps = 3;
  evaluated.non_finite_steps = 1;
  evaluated.validation_loss_first = 5.25;
  evaluated.validation_loss_last = 3.125;
  evaluated.validation_loss_best = 3;
  evaluated.token_accuracy_last = 0.3125;
  evaluated.checkpoint_write_time_ms_median = 1'500;
  ComparisonRow& resumed = report.rows[2];
  resumed.sharding = "hybrid_shard 2";
  resumed.offload = Offload::kParameters;
  resumed.resumed_from_step = 20;
  resumed.validation_loss_first = 4;
  resumed.validation_loss_last = 3.5;
  resumed.validation_loss_best = 3.5;
  resumed.token_accuracy_last = 1;
  return report;
}

Report per_rank_report() {
  Report report = lab_report();
  report.per_rank = true;
  for (int64_t rank = 0; rank < 2; ++rank) {
    RankRow row;
    row.experiment = "lab";
    row.run = 2;
    row.position = 1;
    row.point = "4×DDP";
    row.attempt = 1;
    row.status = RunStatus::kFinished;
    row.rank = rank;
    row.host = "node1";
    row.device = "cuda:" + std::to_string(rank);
    row.device_name = "a GPU";
    row.steps = 100;
    row.step_time_ms_median = 12.25 + static_cast<double>(rank);
    row.memory_allocated_bytes_forward = (rank + 2) * kGibibyte;
    row.memory_reserved_bytes_forward = (rank + 4) * kGibibyte;
    row.memory_allocated_bytes_max = (rank + 3) * kGibibyte;
    row.memory_reserved_bytes_max = (rank + 5) * kGibibyte;
    report.rank_rows.push_back(row);
  }
  return report;
}

// Compares with tests/golden/<name>. With UPDATE_GOLDEN=1 in the environment it writes the file
// instead: look at its diff before you commit it.
void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(FSDP_GOLDEN_FOLDER) + "/" + name;
  const char* update = std::getenv("UPDATE_GOLDEN");
  if (update && std::string_view(update) == "1") {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  INFO(path);
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::stringstream expected;
  expected << file.rdbuf();
  CHECK(text == expected.str());
}

TEST_CASE("the four formats are as in tests/golden") {
  check_golden("report.txt", render(Format::kTable, lab_report()));
  check_golden("report.md", render(Format::kMarkdown, lab_report()));
  check_golden("report.csv", render(Format::kCsv, lab_report()));
  check_golden("report.json", render(Format::kJson, lab_report()));
}

TEST_CASE("reports per rank are as in tests/golden") {
  check_golden("report_per_rank.txt", render(Format::kTable, per_rank_report()));
  check_golden("report_per_rank.csv", render(Format::kCsv, per_rank_report()));
}

TEST_CASE("reports of runs that evaluate, skip and resume are as in tests/golden") {
  check_golden("report_training.txt", render(Format::kTable, training_report()));
  check_golden("report_training.md", render(Format::kMarkdown, training_report()));
  check_golden("report_training.csv", render(Format::kCsv, training_report()));
}

TEST_CASE("columns that no run has something for are not shown, and are in csv and json") {
  Report report = training_report();
  const auto has = [&](const std::string& heading) {
    return render(Format::kMarkdown, report).find("| " + heading + " |") != std::string::npos;
  };
  for (const std::string heading : {"validation loss", "token accuracy", "skipped steps"}) {
    INFO(heading);
    CHECK(has(heading));
  }
  report.rows[1].skipped_steps = 0;
  CHECK_FALSE(has("skipped steps"));
  CHECK(has("validation loss"));
  report.rows.resize(1);
  CHECK_FALSE(has("validation loss"));
  CHECK_FALSE(has("token accuracy"));
  CHECK_THAT(render(Format::kCsv, report), Catch::Contains(",validation_loss_last,"));
}

TEST_CASE("the strategy column shows what differs") {
  Report report;
  report.rows = {finished_row(1, "run", StrategyKind::kFsdp, 2, 10)};
  ComparisonRow& row = report.rows[0];
  const auto strategy = [&] {
    const std::string text = render(Format::kMarkdown, report);
    const size_t begin = text.find("| run | ") + 8;
    return text.substr(begin, text.find(" |", begin) - begin);
  };
  CHECK(strategy() == "fsdp");
  row.offload = Offload::kOptimizer;
  CHECK(strategy() == "fsdp+offload");
  row.offload = Offload::kParameters;
  CHECK(strategy() == "fsdp+offload parameters");
  row.sharding = "no_shard";
  CHECK(strategy() == "fsdp no\\_shard+offload parameters");
  row.strategy = StrategyKind::kDdp;
  row.sharding.clear();
  row.offload = Offload::kNone;
  CHECK(strategy() == "ddp");
}

TEST_CASE("a run of which no rank has reported has its row in a report per rank") {
  Report report = per_rank_report();
  RankRow row;
  row.run = 4;
  row.point = "offload";
  row.attempt = 1;
  row.status = RunStatus::kFailed;
  report.rank_rows.push_back(row);
  CHECK_THAT(render(Format::kTable, report),
             Catch::Contains("\noffload  fsdp+offload     -  -       "));
  const auto json = nlohmann::json::parse(render(Format::kJson, report))["rows"].at(2);
  CHECK(json["rank"].is_null());
  CHECK(json["status"] == "failed");
}

TEST_CASE("the remark about the warm-up says what was left out of which run") {
  Report report;
  report.rows = {finished_row(1, "long", StrategyKind::kSingle, 1, 10)};
  const auto remark = [&] {
    const std::string text = render(Format::kTable, report);
    const size_t begin = text.find(" range") + 6;
    return text.substr(begin, text.find('.', begin) - begin);
  };
  CHECK(remark() == ", the first 2 steps left out as warm-up");
  report.rows.push_back(finished_row(2, "short", StrategyKind::kDdp, 2, 10));
  report.rows[1].steps = 2;
  CHECK(remark() == ", the first 2 steps left out as warm-up (none of short, which did no more)");
  report.rows.erase(report.rows.begin());
  CHECK(remark() == ", no step left out as warm-up, for no more were done");
  report.rows[0].steps = 0;
  report.rows[0].step_time_ms_median.reset();
  CHECK(render(Format::kTable, report).find("warm-up") == std::string::npos);
}

TEST_CASE("json holds every field of a row, in full, and null for what was not measured") {
  const auto report = nlohmann::json::parse(render(Format::kJson, lab_report()));
  REQUIRE(report["rows"].size() == 6);
  CHECK(report["title"] == "A lab, with | and \"quotes\"");
  CHECK(report["rows"][0]["loss_first"] == 6.931471805599453);
  CHECK(report["rows"][1]["tokens_per_second_ratio"] == 2.5);
  CHECK(report["rows"][3]["loss_last"].is_null());
  CHECK(report["rows"][5]["attempt"].is_null());
  ComparisonRow::visit_fields(lab_report().rows[0], [&](const char* name, auto&&...) {
    INFO(name);
    CHECK(report["rows"][0].contains(name));
  });
}

TEST_CASE("columns have a name of their own and documentation") {
  for (const auto& all : {columns(), rank_columns()}) {
    std::set<std::string> names;
    for (const Column& column : all) {
      INFO(column.name);
      CHECK(names.insert(column.name).second);
      CHECK_FALSE(column.documentation.empty());
      CHECK(column.heading.empty() == !column.text);
    }
  }
}

TEST_CASE("colour is used only when asked for, and changes no width") {
  Report report = lab_report();
  const std::string plain = render(Format::kTable, report);
  report.colour = true;
  std::string coloured = render(Format::kTable, report);
  CHECK(plain.find('\033') == std::string::npos);
  CHECK_THAT(coloured, Catch::Contains("\033[32mfinished"));
  CHECK_THAT(coloured, Catch::Contains("\033[31mfailed"));
  for (const std::string code : {"\033[0m", "\033[1m", "\033[31m", "\033[32m", "\033[33m"}) {
    for (size_t at; (at = coloured.find(code)) != std::string::npos;)
      coloured.erase(at, code.size());
  }
  const auto without_spaces = [](std::string text) {
    std::erase(text, ' ');
    return text;
  };
  CHECK(without_spaces(coloured) == without_spaces(plain));
}

TEST_CASE("ratios are to the first row of the same experiment that finished") {
  Report report = lab_report();
  report.rows[0].status = RunStatus::kOutOfMemory;
  report.rows[2].experiment = "another";
  const auto rows = nlohmann::json::parse(render(Format::kJson, report))["rows"];
  CHECK(rows[0]["tokens_per_second_ratio"] == 0.4);
  CHECK(rows[1]["tokens_per_second_ratio"] == 1.0);
  CHECK(rows[2]["tokens_per_second_ratio"] == 1.0);
  CHECK_THAT(render(Format::kTable, report),
             Catch::Contains("experiment") && Catch::Contains("finished: 4×DDP, FSDP, batch 8"));
}

TEST_CASE("a report without rows is a heading, and still valid JSON") {
  const Report report;
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("point"));
  CHECK(nlohmann::json::parse(render(Format::kJson, report))["rows"].empty());
  CHECK_THAT(render(Format::kCsv, report), Catch::EndsWith("reason_rank\r\n"));
}

TEST_CASE("figures are rounded for people") {
  CHECK(three_digits(0.0) == "0.00");
  CHECK(three_digits(0.012345) == "0.0123");
  CHECK(three_digits(1.0) == "1.00");
  CHECK(three_digits(99.94) == "99.9");
  CHECK(three_digits(99.96) == "100");
  CHECK(three_digits(123.6) == "124");
  CHECK(three_digits(123456.7) == "123457");
  CHECK(three_digits(std::optional<double>()) == "-");
  CHECK(gibibytes(kGibibyte, kGibibyte + 1) == "1.00");
  CHECK(gibibytes(kGibibyte, 2 * kGibibyte) == "1.00-2.00");
  CHECK(gibibytes(std::nullopt) == "-");
  CHECK(duration(850) == "850 ms");
  CHECK(duration(12'340) == "12.3 s");
  CHECK(duration(245'000) == "4 min 05 s");
  CHECK(duration(7'380'000) == "2 h 03 min");
  CHECK(ratio(1.254) == "x1.25");
}

}  // namespace
}  // namespace fsdp
