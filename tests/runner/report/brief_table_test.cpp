#include <algorithm>
#include <sstream>

#include "runner/table/terminal_text.h"
#include "tests/runner/report/report_fixture.h"

// The table that people see without asking for more.
namespace fsdp {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The line of headings: the one above the rule.
std::string headings_of(const Report& report) {
  const std::vector<std::string> lines = lines_of(render(Format::kTable, report));
  const auto rule =
      std::ranges::find_if(lines, [](const std::string& line) { return line.starts_with("---"); });
  REQUIRE(rule != lines.end());
  return *std::prev(rule);
}

Report two_rows() {
  Report report;
  report.title = "Two rows";
  report.rows = {finished_row(1, "4xDDP", StrategyKind::kFsdp, 4, 200),
                 finished_row(2, "4xFSDP", StrategyKind::kFsdp, 4, 100)};
  return report;
}

TEST_CASE("a brief table has the columns in which its rows differ") {
  Report report = two_rows();
  CHECK(headings_of(report) == "point      GiB  tokens/s  ratio    loss");
  report.rows[1].strategy = StrategyKind::kDdp;
  CHECK_THAT(headings_of(report), Catch::Contains("  strategy  ") && !Catch::Contains("ranks"));
  report.rows[1].ranks = 2;
  report.rows[1].status = RunStatus::kFailed;
  CHECK_THAT(headings_of(report), Catch::Contains("  ranks  ") && Catch::Contains("  status"));
  report.view.wide = true;
  CHECK_THAT(headings_of(report), Catch::Contains("steps/s") && Catch::Contains("status"));
}

TEST_CASE("columns that are asked for stand beside the brief ones, or alone") {
  Report report = two_rows();
  report.view.columns = {"+steps"};
  CHECK(headings_of(report) == "point      GiB  tokens/s  ratio    loss  steps");
  report.view.columns = {"+steps", "attempt"};
  CHECK(headings_of(report) == "point      GiB  tokens/s  ratio    loss  steps  attempt");
  report.view.columns = {"point", "step_time_ms_median"};
  CHECK_THAT(headings_of(report), Catch::StartsWith("point") && !Catch::Contains("tokens/s"));
}

TEST_CASE("a row that did not fit shows what there was") {
  Report report = two_rows();
  report.rows[1].status = RunStatus::kOutOfMemory;
  report.rows[1].device_memory_bytes = 80 * kGibibyte;
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("> 80.0"));
  report.rows[1].memory_limit_gib = 24;
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("> 24.0"));
  report.rows[1].memory_limit_gib = 100;  // more than the device has
  CHECK_THAT(render(Format::kTable, report),
             Catch::Contains("> 80.0") && Catch::Contains("does not fit in 80.0 GiB"));
}

TEST_CASE("a row for which the host had too little memory is not said to exceed its GPU") {
  Report report = two_rows();
  report.rows[1].status = RunStatus::kOutOfMemory;
  report.rows[1].device_memory_bytes = 80 * kGibibyte;
  for (const std::string words :
       {"out of memory on the host", "CPU out of memory. limit none, the system refused, 0 MiB",
        "killed because the memory limit of its job or container (cgroup), 12 GiB, was reached",
        "the job's memory limit (slurm.mem) was reached"}) {
    report.rows[1].reason = "rank 0: " + words;
    CHECK_THAT(render(Format::kTable, report),
               !Catch::Contains("80.0") && Catch::Contains("does not fit: 4xFSDP;"));
  }
}

TEST_CASE("a repeat that did not fit shows what there was, also where others finished") {
  Report report = two_rows();
  report.rows[1].series = report.rows[0].series;
  report.rows[1].status = RunStatus::kOutOfMemory;
  report.rows[1].device_memory_bytes = 80 * kGibibyte;
  CHECK_THAT(render(Format::kTable, report), !Catch::Contains("> 80.0"));
  report.row_kind = RowKind::kRun;
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("> 80.0"));
}

TEST_CASE("a loss that is not finite is told apart from one that nobody measured") {
  Report report = two_rows();
  report.rows[0].loss_last.reset();
  report.rows[0].token_accuracy_last = 0;
  report.rows[0].validation_loss_first = 4;
  report.rows[1].loss_last.reset();
  report.rows[1].steps = 0;
  const std::string table = render(Format::kTable, report);
  CHECK_THAT(table, Catch::Contains("x1.00  not finite  not finite\n") &&
                        Catch::Contains("x2.00           -           -\n"));
  report.view.wide = true;
  CHECK_THAT(render(Format::kTable, report),
             Catch::Contains("6.9315 -> not finite") && Catch::Contains("4.0000 -> not finite"));
}

TEST_CASE("what is said of columns is said of those that are shown") {
  Report report = two_rows();
  CHECK_THAT(render(Format::kTable, report),
             Catch::Contains("tokens/s: of all ranks") && !Catch::Contains("Step time:"));
  report.view.columns = {"point", "loss_last"};
  CHECK_THAT(render(Format::kTable, report),
             !Catch::Contains("tokens/s: at") && !Catch::Contains("Ratios are"));
  report = per_rank_report();
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("Memory: each rank's peak"));
  report.view.columns = {"point", "rank", "steps"};
  CHECK_THAT(render(Format::kTable, report), !Catch::Contains("Memory:"));
}

TEST_CASE("no line is longer than the terminal") {
  Report report = lab_report();
  for (ComparisonRow& row : report.rows) {
    row.point += " optimizer.learning_rate=0.0003 data.sequence_length=2048";
    row.series = row.point;
  }
  report.rows[3].reason.clear();  // its note has a log's path, which is never broken
  report.rows[4].reason.clear();
  for (const RowKind kind : {RowKind::kSeries, RowKind::kRun, RowKind::kRank}) {
    report.row_kind = kind;
    for (const size_t width : {60, 80, 120, 200}) {
      report.width = width;
      for (const std::string& line : lines_of(render(Format::kTable, report))) {
        INFO(line);
        CHECK(display_width(line) <= width);
      }
    }
  }
}

TEST_CASE("nothing is said of columns for which the terminal is too narrow") {
  Report report = two_rows();
  report.rows[1].status = RunStatus::kOutOfMemory;
  report.width = 80;
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("\nRatios are to "));
  report.width = 40;
  CHECK_THAT(render(Format::kTable, report),
             !Catch::Contains("ratio") && !Catch::Contains("Ratios are to "));
}

TEST_CASE("columns are called by the headings of the brief table too") {
  Report report = two_rows();
  report.rows[0].memory_allocated_bytes_max = kGibibyte / 2;
  report.view = {.columns = {"point", "memory GiB", "ratio", "step time p25 ms"},
                 .where = {"memory GiB > 1", "ratio > 1.5"},
                 .sort = "-memory GiB"};
  CHECK_THAT(render(Format::kCsv, report),
             Catch::StartsWith("point,memory_allocated_bytes_max,tokens_per_second_ratio,"
                               "step_time_ms_p25\r\n4xFSDP,3221225472,2,98.75\r\n"));
  report.view = {.group = "ratio"};
  CHECK_THAT(render(Format::kMarkdown, report), Catch::Contains("#### ratio: "));
}

TEST_CASE("rows that do not fit are told of last, for the table says so") {
  Report report = lab_report();
  std::swap(report.rows[3], report.rows[4]);
  const std::string text = render(Format::kTable, report);
  const size_t failed = text.find("offload: failed: ");
  CHECK(failed != std::string::npos);
  CHECK(failed < text.find("does not fit: out_of_memory: "));
}

TEST_CASE("a table in LaTeX has at most eight columns, and goes on in another") {
  Report report = lab_report();
  report.view.wide = true;
  const std::string text = render(Format::kLatex, report);
  for (size_t at = text.find("{tabular}{"); at != std::string::npos;
       at = text.find("{tabular}{", at + 1)) {
    CHECK(text.find('}', at + 10) - (at + 10) <= 8);
  }
  CHECK_THAT(text, Catch::Contains("{tab:lab}") && Catch::Contains("{tab:lab-2}") &&
                       Catch::Contains(", continued}") && Catch::Contains("status \\\\"));
}

TEST_CASE("answers stand above the table, in every format that people or programs read") {
  const Report report = two_rows();
  const std::string answer = "x2.00 of 4xDDP";
  CHECK_THAT(render(Format::kTable, report), Catch::Contains("\nSpeed: 4xFSDP is fastest, "));
  for (const Format format : {Format::kMarkdown, Format::kJson, Format::kLatex, Format::kHtml}) {
    CHECK_THAT(render(format, report), Catch::Contains(answer));
  }
}

}  // namespace
}  // namespace fsdp
