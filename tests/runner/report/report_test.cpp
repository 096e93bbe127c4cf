#include "runner/report/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "runner/report/columns.h"
#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

TEST_CASE("formats are as in tests/golden") {
  check_golden("report.txt", render(Format::kTable, lab_report()));
  check_golden("report.md", render(Format::kMarkdown, lab_report()));
  check_golden("report.csv", render(Format::kCsv, lab_report()));
  check_golden("report.json", render(Format::kJson, lab_report()));
  check_golden("report.tex", render(Format::kLatex, lab_report()));
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
  report.view.wide = true;
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
  report.view.wide = true;
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
  report.view.wide = true;
  report.rows = {finished_row(1, "long", StrategyKind::kSingle, 1, 10)};
  const auto remark = [&] {
    const std::string text = render(Format::kTable, report);
    const size_t begin = text.find(" range") + 6;
    return text.substr(begin, text.find(". Memory", begin) - begin);
  };
  CHECK(remark() == ". The first 2 steps are warm-up and are left out");
  report.rows.push_back(finished_row(2, "short", StrategyKind::kDdp, 2, 10));
  report.rows[1].steps = 2;
  CHECK(remark() ==
        ". The first 2 steps are warm-up and are left out, except for short, which did no other "
        "steps");
  report.rows.erase(report.rows.begin());
  CHECK(remark() == ". All steps count, because no run did more steps than its warm-up");
  report.rows[0].warmup_steps_excluded = 0;
  CHECK(remark() == "");
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
  ComparisonRow::visit_fields(
      lab_report().rows[0], [&](const char* name, auto&, auto&&... sentence) {
        INFO(name);
        // The specification has no column of its own: its keys are columns. Held times have columns
        // in hours.
        CHECK(report["rows"][0].contains(name) == (sizeof...(sentence) > 0));
      });
}

TEST_CASE("columns have a name of their own and documentation") {
  for (const auto& all : {columns(), rank_columns()}) {
    std::set<std::string> names;
    for (const RunColumn& column : all) {
      INFO(column.name);
      CHECK(names.insert(column.name).second);
      CHECK_FALSE(column.documentation.empty());
      CHECK_FALSE(with_heading(column).heading.empty());
    }
  }
}

TEST_CASE("what people read of a figure follows from the unit in its name") {
  Report report = lab_report();
  report.rows = {report.rows[0]};
  report.rows[0].memory_allocated_bytes_forward_max = 3LL << 30;
  report.rows[0].energy_joules = 41'000;
  report.view.columns = {"training_time_ms", "step_time_ms_p25", "energy_joules",
                         "memory_allocated_bytes_forward_max"};
  const std::string markdown = render(Format::kMarkdown, report);
  CHECK_THAT(markdown,
             Catch::Contains("| training time | step time p25 ms | energy kJ | memory allocated "
                             "forward max GiB |") &&
                 Catch::Contains("| 1 min 22 s | 511 | 41.0 | 3.00 |"));
  for (const auto& [condition, count] : std::map<std::string, size_t>{
           {"energy kJ > 40", 1}, {"energy kJ > 42", 0}, {"energy_joules > 42", 1}}) {
    report.view.where = {condition};
    INFO(condition);
    CHECK(nlohmann::json::parse(render(Format::kJson, report))["rows"].size() == count);
  }
}

TEST_CASE("the reference of columns says what each is and which direction is better") {
  const std::string reference = columns_reference();
  CHECK_THAT(reference,
             Catch::Contains("* tokens_per_second\n      Tokens that all ranks read per second, "
                             "those that fill sequences up included, at the median step time. "
                             "More is better.\n"));
  CHECK_THAT(reference, Catch::Contains("+ energy_joules\n") && Catch::Contains("  loss_first\n"));
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
  CHECK(rows[0]["tokens_per_second_ratio"].is_null());
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

}  // namespace
}  // namespace fsdp
