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
  const std::vector<std::string> lines = lines_of(table_of(report));
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
  CHECK(headings_of(report) == "point   a rank  4xDDP  tokens/s  4xDDP   loss");
  report.rows[1].spec.strategy.kind = StrategyKind::kDdp;
  CHECK_THAT(headings_of(report), Catch::Contains("  strategy  ") && !Catch::Contains("x batch"));
  report.rows[1].spec.batch.total = 32;
  report.rows[1].status = RunStatus::kFailed;
  CHECK_THAT(headings_of(report), Catch::Contains("  x batch  ") && Catch::Contains("  status"));
  report.view.wide = true;
  CHECK_THAT(headings_of(report), Catch::Contains("steps/s") && Catch::Contains("status"));
}

TEST_CASE("columns that are asked for stand beside the brief ones, or alone") {
  Report report = two_rows();
  report.view.columns = {"+attempt"};
  CHECK_THAT(headings_of(report), Catch::EndsWith("loss  attempt"));
  report.view.columns = {"+attempt", "run"};
  CHECK_THAT(headings_of(report), Catch::EndsWith("loss  attempt  run"));
  report.view.columns = {"point", "step_time_ms_median"};
  CHECK_THAT(headings_of(report), Catch::StartsWith("point") && !Catch::Contains("tokens/s"));
}

// The line of a row in the table.
std::string line_of(const Report& report, const std::string& point) {
  const std::vector<std::string> lines = lines_of(table_of(report));
  return *std::ranges::find_if(
      lines, [&](const std::string& line) { return line.starts_with(point + "  "); });
}

TEST_CASE(
    "percentages are of the baseline; ? marks what may be noise, and - what is not compared") {
  Report report = two_rows();
  report.rows.push_back(report.rows[1]);
  report.rows[2].point = report.rows[2].series = "busy";
  report.rows[2].cpu_time_others_percent = report.rows[2].run_queue_wait_percent = 50;
  report.rows.push_back(report.rows[0]);
  report.rows[3].point = report.rows[3].series = "same";
  report.rows[3].tokens_per_second = *report.rows[0].tokens_per_second * 0.95;
  report.rows[1].memory_allocated_bytes_max = kGibibyte;
  CHECK(line_of(report, "4xDDP") == "4xDDP     3.00    100     20500  100    2.500");
  CHECK(line_of(report, "4xFSDP") == "4xFSDP    1.00     33     41000  200    2.500");
  CHECK(line_of(report, "busy") == "busy      3.00    100     41000    -    2.500");
  CHECK(line_of(report, "same") == "same      3.00    100     19500   95 ?  2.500");
  CHECK_THAT(table_of(report),
             Catch::Contains("\n? may be noise: the row is not known to be faster or slower than "
                             "4xDDP\n"));
  report.view.baseline = "4xFSDP";
  CHECK(line_of(report, "4xDDP") == "4xDDP     3.00     300     20500      50  2.500");
  report.rows[3].device_name = "another";
  CHECK_THAT(line_of(report, "same"), Catch::Contains("19500       -"));
  report.view.wide = true;
  CHECK_THAT(line_of(report, "4xDDP"), Catch::Contains("50 %   300 %"));
}

TEST_CASE("a long baseline, or several, are named below the table") {
  Report report = two_rows();
  report.rows[0].point = report.rows[0].series = "distributed data parallel";
  CHECK_THAT(headings_of(report), Catch::Contains("  baseline  "));
  CHECK_THAT(table_of(report), Catch::Contains("\nbaseline: distributed data parallel\n"));
  report.view.group = "point";
  CHECK_THAT(table_of(report), Catch::Contains("\nbaseline: 4xFSDP\n"));
}

TEST_CASE("losses that are not comparable with those of most rows have a *") {
  Report report = two_rows();
  for (ComparisonRow& row : report.rows) row.loss_digest = "equal";
  report.rows.push_back(report.rows[1]);
  report.rows[2].point = report.rows[2].series = "other";
  report.rows[2].loss_digest = "other";
  report.rows[2].spec.batch.total = 32;
  CHECK_THAT(line_of(report, "4xFSDP"), Catch::EndsWith("100 x 16  2.500"));
  CHECK_THAT(line_of(report, "other"), Catch::EndsWith("100 x 32  2.500 *"));
  CHECK_THAT(
      table_of(report),
      Catch::Contains("\n* another batch than 4xDDP and 4xFSDP: losses are not comparable\n"));
  report.rows[2].experiment = "lab [batch.total=32]";
  CHECK_THAT(table_of(report),
             Catch::Contains("2.500 *") &&
                 Catch::Contains("\n* losses are not comparable with those of most rows\n"));
  report.rows[2].experiment = "another";
  CHECK_THAT(table_of(report), !Catch::Contains("2.500 *"));
  report.rows[2].experiment = "lab";
  report.rows[1].loss_digest = "a third one";
  CHECK_THAT(table_of(report), !Catch::Contains("2.500 *"));
}

TEST_CASE("what to do next follows from what the rows leave open") {
  Report report = two_rows();
  const auto next = [&] {
    const std::string text = table_of(report);
    const size_t begin = text.find("\nNext:");
    return text.substr(begin + 1, text.find("\n\n", begin) - begin);
  };
  CHECK(next() == "Next:   `fsdp-run report lab --wide` shows step times and all other columns\n");
  report.rows[1].tokens_per_second = *report.rows[0].tokens_per_second;
  CHECK_THAT(next(), Catch::StartsWith("Next:   `--repeats 5` may separate"));
  report.rows[1].steps = 5;
  CHECK_THAT(next(), Catch::StartsWith("Next:   a larger `train.steps` makes speeds comparable\n"));
  report.rows[1].status = RunStatus::kFailed;
  CHECK_THAT(next(), Catch::StartsWith("Next:   `fsdp-run explain 4xFSDP` says why it failed\n"));
  report.rows[1].point = report.rows[1].series = "FSDP batch 8";
  CHECK_THAT(next(), Catch::StartsWith("Next:   `fsdp-run explain 'FSDP batch 8'` says"));
  CHECK_THAT(render(Format::kMarkdown, report), !Catch::Contains("**Next"));
}

TEST_CASE("a row that did not fit shows what there was") {
  Report report = two_rows();
  report.rows[1].status = RunStatus::kOutOfMemory;
  report.rows[1].device_memory_bytes = 80 * kGibibyte;
  CHECK_THAT(table_of(report), Catch::Contains("> 80.0"));
  report.rows[1].spec.memory_limit_gib = 24;
  CHECK_THAT(table_of(report), Catch::Contains("> 24.0"));
  report.rows[1].spec.memory_limit_gib = 100;  // more than the device has
  CHECK_THAT(table_of(report),
             Catch::Contains("> 80.0") && Catch::Contains("4xFSDP does not fit in 80.0 GiB"));
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
    CHECK_THAT(table_of(report),
               !Catch::Contains("80.0") && Catch::Contains("4xFSDP does not fit\n"));
  }
}

TEST_CASE("a repeat that did not fit shows what there was, also where others finished") {
  Report report = two_rows();
  report.rows[1].series = report.rows[0].series;
  report.rows[1].status = RunStatus::kOutOfMemory;
  report.rows[0].device_memory_bytes = report.rows[1].device_memory_bytes = 80 * kGibibyte;
  CHECK_THAT(table_of(report), !Catch::Contains("> 80.0"));
  report.row_kind = RowKind::kRun;
  CHECK_THAT(table_of(report), Catch::Contains("> 80.0"));
}

TEST_CASE("a loss that is not finite is told apart from one that nobody measured") {
  Report report = two_rows();
  report.rows[0].loss_last.reset();
  report.rows[0].token_accuracy_last = 0;
  report.rows[0].validation_loss_first = 4;
  report.rows[1].loss_last.reset();
  report.rows[1].steps = 0;
  const std::string table = table_of(report);
  CHECK_THAT(table, Catch::Contains("x 16  not finite  not finite\n") &&
                        Catch::Contains("0 x 16           -           -\n"));
  report.view.wide = true;
  CHECK_THAT(table_of(report),
             Catch::Contains("6.9315 -> not finite") && Catch::Contains("4.0000 -> not finite"));
}

TEST_CASE("what is said of columns is said of those that are shown") {
  Report report = two_rows();
  CHECK_THAT(table_of(report),
             Catch::Contains("\nmemory: peak of a rank; tokens/s: of all ranks\n") &&
                 !Catch::Contains("Ratios are"));
  report.view.columns = {"point", "tokens_per_second"};
  CHECK_THAT(table_of(report), !Catch::Contains("Ratios are"));
  report.view.columns = {"point", "tokens_per_second_ratio"};
  CHECK_THAT(table_of(report), Catch::Contains("Ratios are to the first row"));
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
      for (const std::string& line : lines_of(table_of(report))) {
        INFO(line);
        CHECK(display_width(line) <= width);
      }
    }
  }
}

TEST_CASE("nothing is said of columns for which the terminal is too narrow") {
  Report report = two_rows();
  report.rows[1].tokens_per_second = *report.rows[0].tokens_per_second;
  report.width = 80;
  CHECK_THAT(table_of(report), Catch::Contains("\n? may be noise"));
  report.width = 30;
  CHECK_THAT(table_of(report), !Catch::Contains("% of"));
  CHECK_THAT(table_of(report), !Catch::Contains("? may"));
}

TEST_CASE("columns are called by the headings of the brief table too") {
  Report report = two_rows();
  report.rows[0].memory_allocated_bytes_max = kGibibyte / 2;
  report.view = {.columns = {"point", "memory GiB", "tokens/s ratio", "step time p25 ms"},
                 .where = {"memory > 1", "tokens/s ratio > 1.5"},
                 .sort = "-memory GiB"};
  CHECK_THAT(render(Format::kCsv, report),
             Catch::StartsWith("point,memory_allocated_bytes_max,tokens_per_second_ratio,"
                               "step_time_ms_p25\r\n4xFSDP,3221225472,2,98.75\r\n"));
  report.view = {.group = "tokens/s ratio"};
  CHECK_THAT(render(Format::kMarkdown, report), Catch::Contains("#### tokens/s ratio: "));
}

TEST_CASE("rows that do not fit are told of last, for the table says so") {
  Report report = lab_report();
  std::swap(report.rows[3], report.rows[4]);
  const std::string text = table_of(report);
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

TEST_CASE("answers stand below the table, in every format that people or programs read") {
  const Report report = two_rows();
  const std::string answer = "4xFSDP is fastest, 41000 tokens/s; next is 4xDDP";
  const std::string text = table_of(report);
  CHECK(text.find("\n4xFSDP ") < text.find("\nSpeed:  " + answer));
  CHECK_THAT(text, Catch::Contains("\nSpeed:  " + answer));
  for (const Format format : {Format::kMarkdown, Format::kJson, Format::kLatex, Format::kHtml}) {
    CHECK_THAT(render(format, report), Catch::Contains(answer));
  }
}

}  // namespace
}  // namespace fsdp
