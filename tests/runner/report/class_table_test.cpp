#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text/config_error.h"
#include "base/text/json.h"
#include "contract/spec/run_spec.h"
#include "runner/table/terminal_text.h"
#include "tests/runner/report/report_fixture.h"

// The table of a whole class's measurements.
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

const ClassMembers kMembers{
    .experiments = {{"alice", {}}, {"bob", {}}, {"carol", {}}, {"dave", {}}}};

std::string rendered(Format format, const Report& report = class_report(),
                     const std::vector<std::string>& figures = {"tokens_per_second"}) {
  return render_class(format, report, figures, kMembers);
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
        "bob has no result for 1 of 2 points: 4xDDP (failed).\n"
        "dave has no runs in this table.\n");
}

TEST_CASE("a point that a person never had is told apart from one that did not finish") {
  Report report = class_report();
  report.rows.erase(report.rows.begin() + 3);
  CHECK_THAT(rendered(Format::kTable, report),
             Contains("bob has no result for 1 of 2 points: 4xDDP (not in the list)."));
  report.rows.resize(2);
  CHECK_THAT(render_class(Format::kTable, report, {"tokens/s"}, {}),
             Contains("Everybody has a result for every point."));
}

TEST_CASE("a class's median and extremes stand below, and what is far from the median is told") {
  Report report = class_report();
  report.rows.push_back(row_of("eve", "4xFSDP", 1, 25));
  report.rows.push_back(row_of("fred", "4xFSDP", 1, 500));
  const std::string text = rendered(Format::kTable, report);
  CHECK_THAT(text, Contains("\nfred           -          *8190\n"));
  CHECK_THAT(text, Contains("\nmedian         -          61400\n") &&
                       Contains("\nleast          -           8190\n") &&
                       Contains("\ngreatest       -         164000\n"));
  CHECK_THAT(text,
             Contains("* tokens/s far from the others': fred (4xFSDP: 8190, median 61400).\n"));
  CHECK(json::parse(rendered(Format::kJson, report))["rows"][6]["4xFSDP"] == 61440.0);
}

TEST_CASE("copied results, busy hosts, and who is on the roster are told") {
  Report report = class_report();
  for (ComparisonRow& row : report.rows) {
    row.host = "a host";
    row.started_unix_ms = row.run;
  }
  for (size_t i = 0; i < 2; ++i) {
    ComparisonRow copy = report.rows[i];
    copy.source = "gina";
    copy.experiment = "gina/lab";
    report.rows.push_back(copy);
  }
  report.rows[3].started_unix_ms = report.rows[0].started_unix_ms;
  report.rows[3].host = "another";
  report.rows[2].cpu_time_others_percent = report.rows[2].run_queue_wait_percent = 50;
  ClassMembers members = kMembers;
  members.experiments["dave"] = {"my lab", "t5"};
  members.roster = {"alice", "bob", "carol", "dave", "hugo"};
  const std::string text = render_class(Format::kTable, report, {"tokens/s"}, members);
  CHECK_THAT(text, Contains("\ngina's 2 runs are alice's: same attempts, hosts and times.\n"));
  CHECK_THAT(text, !Contains("bob's"));
  CHECK_THAT(text, Contains("* a busy host: bob.\n"));
  CHECK_THAT(text, Contains("*81900"));
  CHECK_THAT(text, Contains("\ndave has no runs in this table; other experiments: my lab, t5.\n"));
  CHECK_THAT(text, Contains("\nhugo is on the roster and has no results.\n"));
  CHECK_THAT(text, Contains("\ngina is not on the roster.\n") && !Contains("alice is not"));
  CHECK_THAT(text, !Contains("\nmedian"));  // of two measurements and a copy
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
  CHECK(read["notes"][0] == "bob has no result for 1 of 2 points: 4xDDP (failed).");
}

TEST_CASE("what ran here stands among those whose results were merged") {
  Report report = class_report();
  report.rows.push_back(row_of("", "4xDDP", 0, 100));
  CHECK_THAT(rendered(Format::kTable, report), Contains("\nhere       41000              -\n"));
}

TEST_CASE("an experiment of this folder is nobody else's, whatever is in front of its name") {
  Report report = class_report();
  report.rows = {row_of("", "4xDDP", 0, 100)};
  report.rows[0].experiment = "alice/lab";
  CHECK(render_class(Format::kTable, report, {"tokens/s"}, {}) ==
        "alice/lab: tokens/s\n\n"
        "source  4xDDP\n"
        "------  -----\n"
        "here    41000\n\n"
        "Everybody has a result for every point.\n");
}

TEST_CASE("figures of another device, version or processor are marked, and whose they are told") {
  Report report = class_report();
  CHECK_THAT(rendered(Format::kTable, report), !Contains("*"));
  for (ComparisonRow& row : report.rows) {
    row.torch_version = "2.11.0";
    row.runner_version = "0.2.0";
    row.spec.device = DeviceKind::kCuda;
    row.cpu_name = "a processor";
  }
  CHECK_THAT(rendered(Format::kTable, report), !Contains("*"));
  for (ComparisonRow* row : {&report.rows[2], &report.rows[3]}) {
    row->device_name = "a GPU";
    row->cpu_name = "another processor";
  }
  report.rows[3].runner_version = "0.0.1";  // has no figure, as it failed
  report.rows[4].torch_version = "2.10.0";
  report.rows[5].torch_version = "2.10.0";
  report.rows[5].runner_version.clear();  // not known
  report.rows[0].runner_version = "0.1.0";
  CHECK(rendered(Format::kTable, report) ==
        "lab: tokens/s\n\n"
        "source   4xDDP          4xFSDP\n"
        "------  ------  --------------\n"
        "alice   *20500           41000\n"
        "bob     failed          *81900\n"
        "carol   *10200  *out_of_memory\n"
        "dave         -               -\n\n"
        "bob has no result for 1 of 2 points: 4xDDP (failed).\n"
        "dave has no runs in this table.\n"
        "* fsdp-run 0.1.0, not 0.2.0: alice (4xDDP).\n"
        "* PyTorch 2.10.0, not 2.11.0: carol.\n"
        "* device a GPU, not a processor: bob.\n"
        "* CPU another processor, not a processor: bob.\n");
  CHECK_THAT(rendered(Format::kCsv, report), !Contains("*"));
  CHECK_THAT(rendered(Format::kJson, report), Contains("\"* PyTorch 2.10.0, not 2.11.0: carol.\""));
}

TEST_CASE("the first of equally many devices is not marked, and a processor is named once") {
  Report report = class_report();
  report.rows.resize(3);
  report.rows.erase(report.rows.begin() + 1);
  report.rows[1].device_name = report.rows[1].cpu_name = "another processor";
  report.rows[0].cpu_name = "a processor";
  const std::string text = render_class(Format::kTable, report, {"tokens/s"}, {});
  CHECK_THAT(text, Contains("* device another processor, not a processor: bob.\n") &&
                       !Contains("CPU") && Contains("\nalice   20500"));
}

// Gives the row a specification with these settings.
void give_spec(ComparisonRow& row, const std::string& hash8, double learning_rate,
               int64_t steps = 10) {
  row.spec.optimizer.learning_rate = learning_rate;
  row.spec.train.steps = steps;
  row.hash8 = hash8;
}

TEST_CASE("settings and input files that are not those of most at a point are marked and told") {
  Report report = class_report();
  for (ComparisonRow& row : report.rows) give_spec(row, "usual", 0.5);
  report.rows.push_back(row_of("eve", "4xDDP", 0, 400));
  report.rows.push_back(row_of("eve", "4xFSDP", 1, 400));
  give_spec(report.rows[4], "files", 0.5);
  report.rows[4].data_digest = "other";
  give_spec(report.rows[6], "rate", 0.25, 20);
  give_spec(report.rows[7], "rate and more", 0.25);
  const std::string text = rendered(Format::kTable, report);
  CHECK_THAT(text, Contains("\neve       *10200         *10200\n"));
  CHECK_THAT(text, Contains("* optimizer.learning_rate 0.25, not 0.5: eve.\n") &&
                       Contains("* train.steps 20, not 10: eve (4xDDP).\n") &&
                       Contains("* other input files: carol (4xDDP).\n"));
  report.rows[6].spec = report.rows[5].spec;
  CHECK_THAT(rendered(Format::kTable, report), Contains("* other settings: eve (4xDDP).\n"));
}

TEST_CASE("tables of merged rows mark such rows too, and those of one person mark none") {
  Report report = class_report();
  for (ComparisonRow& row : report.rows) row.torch_version = "2.11.0";
  report.rows[2].torch_version = report.rows[3].torch_version = "2.9.1";
  report.view.columns = {"point", "source", "status"};
  CHECK_THAT(table_of(report), Contains("4xFSDP *  bob     finished\n") &&
                                   Contains("4xDDP     bob     failed\n") &&
                                   Contains("4xFSDP    alice   finished\n") &&
                                   Contains("\n* PyTorch 2.9.1, not 2.11.0: bob.\n"));
  CHECK_THAT(render(Format::kCsv, report), !Contains("*"));
  for (ComparisonRow& row : report.rows) row.source.clear();
  CHECK_THAT(table_of(report), !Contains("4xFSDP *") && !Contains("* PyTorch"));
}

TEST_CASE("several figures are a block each, and a wide report has every usual one") {
  const std::vector<std::string> figures{"tokens/s", "memory"};
  CHECK(rendered(Format::kTable, class_report(), figures) ==
        "lab\n\n"
        "source   4xDDP         4xFSDP\n"
        "------  ------  -------------\n\n"
        "tokens/s\n"
        "alice    20500          41000\n"
        "bob     failed          81900\n"
        "carol    10200  out_of_memory\n"
        "dave         -              -\n\n"
        "memory GiB a rank\n"
        "alice     3.00           3.00\n"
        "bob     failed           3.00\n"
        "carol     3.00  out_of_memory\n"
        "dave         -              -\n\n"
        "bob has no result for 1 of 2 points: 4xDDP (failed).\n"
        "dave has no runs in this table.\n");
  CHECK_THAT(rendered(Format::kCsv, class_report(), figures),
             Contains("figure,source,4xDDP,4xFSDP\r\ntokens_per_second,alice,20480,40960\r\n") &&
                 Contains("\r\nmemory_allocated_bytes_max,carol,3221225472,\r\n"));
  Report wide = class_report();
  wide.view.wide = true;
  const std::string text = rendered(Format::kTable, wide, {"memory"});
  CHECK(text.find("\nmemory GiB a rank\n") < text.find("\nstrategy\n"));
  CHECK_THAT(text, Contains("\ntokens/s\n") && Contains("\nstatus\n") && !Contains("MFU"));
}

TEST_CASE("warnings below a class's table say whose rows they are of") {
  Report report = class_report();
  CHECK_THAT(rendered(Format::kTable, report), !Contains("Warning"));
  report.rows[1].other_processes = report.rows[2].other_processes = 1;
  CHECK_THAT(
      rendered(Format::kTable, report),
      Contains("other processes were on a GPU when these runs began: 4xFSDP (alice, bob); "));
  CHECK(json::parse(rendered(Format::kJson, report))["warnings"][0]["name"] == "other_processes");
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
  CHECK_THAT(page, Contains("bob has no result for 1 of 2 points"));
}

TEST_CASE("a page of a class keeps the title and the author that it was given") {
  Report report = class_report();
  report.html.head = {.title = "Lab 3", .author = "CS 101"};
  CHECK_THAT(rendered(Format::kHtml, report),
             Contains("<title>Lab 3</title>") && Contains("\"author\":\"CS 101\""));
}

TEST_CASE("a class's table is of one experiment and of a column that there is") {
  Report report = class_report();
  CHECK_THROWS_AS(rendered(Format::kTable, report, {"tokens"}), ConfigError);
  report.rows[0].experiment = "alice/chess";
  CHECK_THROWS_MATCHES(
      rendered(Format::kTable, report), ConfigError,
      Catch::Matchers::Message(
          "--class: shows one experiment at a time; allowed before --class: chess or lab"));
}

}  // namespace
}  // namespace fsdp
