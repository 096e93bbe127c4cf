#include "runner/report/report.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "runner/report/columns.h"
#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

TEST_CASE("reports of a lab, per rank and of training features are as in tests/golden") {
  using enum Format;
  check_golden_formats("report", lab_report(), {kTable, kMarkdown, kCsv, kJson, kLatex});
  check_golden_formats("report_per_rank", per_rank_report(), {kTable, kCsv});
  check_golden_formats("report_training", training_report(), {kTable, kMarkdown, kCsv});
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
  row.spec.strategy.offload = Offload::kOptimizer;
  CHECK(strategy() == "fsdp+offload");
  row.spec.strategy.offload = Offload::kParameters;
  CHECK(strategy() == "fsdp+offload parameters");
  row.spec.strategy.sharding = Sharding::kNoShard;
  CHECK(strategy() == "fsdp no\\_shard+offload parameters");
  row.spec.strategy.kind = StrategyKind::kDdp;
  row.spec.strategy.offload = Offload::kNone;
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
  CHECK_THAT(table_of(report), Catch::Contains("\noffload  fsdp+offload     -  -       "));
  const auto json = json_rows(report).at(2);
  CHECK(json["rank"].is_null());
  CHECK(json["status"] == "failed");
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
    CHECK(json_rows(report).size() == count);
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
  const std::string plain = table_of(report);
  report.colour = true;
  std::string coloured = table_of(report);
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
  const auto rows = json_rows(report);
  CHECK(rows[0]["tokens_per_second_ratio"].is_null());
  CHECK(rows[1]["tokens_per_second_ratio"] == 1.0);
  CHECK(rows[2]["tokens_per_second_ratio"] == 1.0);
  CHECK_THAT(table_of(report),
             Catch::Contains("experiment") && Catch::Contains("\nbaseline: 4×DDP, FSDP, batch 8"));
}

TEST_CASE("a report without rows is a heading, and still valid JSON") {
  const Report report;
  CHECK_THAT(table_of(report), Catch::Contains("point"));
  CHECK(json_rows(report).empty());
  CHECK_THAT(render(Format::kCsv, report), Catch::EndsWith("reason_rank\r\n"));
}

}  // namespace
}  // namespace fsdp
