#include "runner/report/class_table.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "contract/text/config_error.h"
#include "runner/report/terminal_text.h"
#include "tests/runner/report/report_fixture.h"

// What everybody of a class measured, as one table.
namespace fsdp {
namespace {

using Catch::Contains;
using nlohmann::json;

ComparisonRow row_of(const std::string& person, const std::string& point, int64_t position,
                     double step_time_ms, RunStatus status = RunStatus::kFinished) {
  static int64_t number = 0;
  ComparisonRow row = finished_row(++number, point, StrategyKind::kFsdp, 4, step_time_ms);
  row.experiment = person.empty() ? "lab" : person + "/lab";
  row.source = person;
  row.position = position;
  row.status = status;
  if (status != RunStatus::kFinished) row.tokens_per_second.reset();
  return row;
}

// Alice has both points, bob one and one that failed, carol one and one that does not fit.
Report class_report() {
  Report report;
  report.row_kind = RowKind::kSeries;
  report.rows = {
      row_of("alice", "4xDDP", 0, 200), row_of("alice", "4xFSDP", 1, 100),
      row_of("bob", "4xFSDP", 1, 50),   row_of("bob", "4xDDP", 0, 1, RunStatus::kFailed),
      row_of("carol", "4xDDP", 0, 400), row_of("carol", "4xFSDP", 1, 1, RunStatus::kOutOfMemory)};
  return report;
}

std::string rendered(Format format, const Report& report = class_report(),
                     const std::string& figure = "tokens_per_second") {
  return render_class(format, report, figure, {"alice", "bob", "carol", "dave"});
}

TEST_CASE("a class is a row for each person and a column for each point, in its order") {
  CHECK(rendered(Format::kTable) ==
        "lab: tokens/s\n\n"
        "source   4xDDP         4xFSDP\n"
        "------  ------  -------------\n"
        "alice    20500          41000\n"
        "bob     failed          81900\n"
        "carol    10200  out_of_memory\n"
        "dave         -              -\n\n"
        "bob misses 1 of 2: 4xDDP (failed).\n"
        "dave has none of it.\n");
}

TEST_CASE("a point that a person never had is told apart from one that did not finish") {
  Report report = class_report();
  report.rows.erase(report.rows.begin() + 3);
  CHECK_THAT(rendered(Format::kTable, report), Contains("bob misses 1 of 2: 4xDDP (not there)."));
  report.rows.resize(2);
  CHECK_THAT(render_class(Format::kTable, report, "tokens/s", {}),
             Contains("Nobody misses a point."));
}

TEST_CASE("programs read a class's figures in full, and nothing where there is none") {
  Report report = class_report();
  report.rows[0].point = report.rows[0].series = "DDP, \"4\"";
  CHECK_THAT(rendered(Format::kCsv, report),
             Contains("source,\"DDP, \"\"4\"\"\",4xDDP,4xFSDP\r\n") &&
                 Contains("bob,,,81920\r\n") && Contains("dave,,,\r\n"));
  const json read = json::parse(rendered(Format::kJson));
  CHECK(read["rows"][0]["4xDDP"] == 20480.0);
  CHECK(read["rows"][1]["4xDDP"].is_null());
  CHECK(read["notes"][0] == "bob misses 1 of 2: 4xDDP (failed).");
}

TEST_CASE("what ran here stands among those whose results were merged") {
  Report report = class_report();
  report.rows.push_back(row_of("", "4xDDP", 0, 100));
  CHECK_THAT(rendered(Format::kTable, report), Contains("\nhere     41000              -\n"));
}

TEST_CASE("an experiment of this folder is nobody else's, whatever is in front of its name") {
  Report report = class_report();
  report.rows = {row_of("", "4xDDP", 0, 100)};
  report.rows[0].experiment = "alice/lab";
  CHECK(render_class(Format::kTable, report, "tokens/s", {}) ==
        "alice/lab: tokens/s\n\n"
        "source  4xDDP\n"
        "------  -----\n"
        "here    41000\n\n"
        "Nobody misses a point.\n");
}

TEST_CASE("figures of different devices are told of") {
  Report report = class_report();
  CHECK_THAT(rendered(Format::kTable, report), !Contains("device"));
  report.rows[2].device_name = "a GPU";
  CHECK_THAT(rendered(Format::kTable, report),
             Contains("Not all on one kind of device: a GPU: bob; a processor: alice, carol."));
}

TEST_CASE("figures of one point's name that are of different runs are told of") {
  Report report = class_report();
  CHECK_THAT(rendered(Format::kTable, report), !Contains("ran the same"));
  report.rows[5].hash8 = "that has no figure";
  CHECK_THAT(rendered(Format::kTable, report), !Contains("ran the same"));
  report.rows[2].hash8 = "another";
  CHECK_THAT(rendered(Format::kTable, report),
             Contains("Not everybody ran the same: 4xFSDP; `fsdp-run diff` shows what two runs "
                      "differ in."));
}

TEST_CASE("a class of many points goes on below, in lines no longer than the terminal") {
  Report report;
  report.row_kind = RowKind::kSeries;
  for (int64_t i = 0; i < 20; ++i) {
    report.rows.push_back(row_of("alice", "a point of number " + std::to_string(i), i, 100));
  }
  report.width = 80;
  std::istringstream lines(rendered(Format::kTable, report));
  int tables = 0;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(display_width(line) <= 80);
    tables += line.starts_with("source") ? 1 : 0;
  }
  CHECK(tables == 4);
  const std::string latex = rendered(Format::kLatex, report);
  CHECK_THAT(latex, Contains("{lrrrrrrr}") && !Contains("{lrrrrrrrr") && Contains("{tab:lab}") &&
                        Contains("{tab:lab-2}") && Contains("{tab:lab-3}"));
  report.width = 0;
  CHECK_THAT(rendered(Format::kMarkdown, report), Contains("number 19 |"));
}

TEST_CASE("a page of a class shows all of its columns") {
  const std::string page = rendered(Format::kHtml);
  CHECK_THAT(page, Contains("\"heading\":\"4xFSDP\"") && !Contains("\"shown_at_first\":false"));
}

TEST_CASE("a class's table is of one experiment and of a column that there is") {
  Report report = class_report();
  CHECK_THROWS_AS(rendered(Format::kTable, report, "tokens"), ConfigError);
  report.rows[0].experiment = "alice/chess";
  CHECK_THROWS_MATCHES(rendered(Format::kTable, report), ConfigError,
                       Catch::Matchers::Message(
                           "--class: is of one experiment; allowed in front of it: chess or lab"));
}

}  // namespace
}  // namespace fsdp
