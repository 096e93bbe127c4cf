#include <catch2/catch.hpp>
#include <sstream>

#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

const std::string kHostile = "=a\nFORGED\x1b[2J\r\xc2\x9b\x33m\u202E\xff</script>|&";

Report hostile_report() {
  Report report = lab_report();
  report.title = kHostile;
  report.results = "results" + kHostile;
  report.notes = {kHostile};
  for (ComparisonRow& row : report.rows) {
    for (std::string* text :
         {&row.point, &row.source, &row.reason, &row.host, &row.device_name, &row.slurm_job,
          &row.node_list, &row.git_commit, &row.torch_version, &row.data_digest}) {
      *text = kHostile + std::to_string(row.run);
    }
    row.series = row.point;
    row.folder = "runs/" + kHostile;
  }
  return report;
}

TEST_CASE("cells of a table stay below each other whatever a name holds") {
  Report report = hostile_report();
  report.view.columns = {"point", "ranks"};
  std::istringstream lines(table_of(report));
  std::string title, empty, heading, rule, row;
  std::getline(lines, title);
  std::getline(lines, empty);
  std::getline(lines, heading);
  std::getline(lines, rule);
  for (size_t i = 0; i < report.rows.size(); ++i) {
    std::getline(lines, row);
    CHECK(row.size() == rule.size());
  }
}

TEST_CASE("a paragraph of Markdown begins no heading or list") {
  Report report = lab_report();
  report.notes = {"# heading", "> quotation", "- item", "plain - text"};
  const std::string text = render(Format::kMarkdown, report);
  CHECK_THAT(text, Catch::Contains("\n\\# heading\n") && Catch::Contains("\n\\> quotation\n") &&
                       Catch::Contains("\n\\- item\n") && Catch::Contains("\nplain - text\n"));
}

TEST_CASE("a point's name is no formula in a table for spreadsheets") {
  Report report = lab_report();
  report.rows.resize(1);
  report.rows[0].point = "=HYPERLINK(1)";
  report.rows[0].loss_last = -1.5;
  report.view.columns = {"point", "loss_last"};
  CHECK(render(Format::kCsv, report) == "point,loss_last\r\n'=HYPERLINK(1),-1.5\r\n");
}

}  // namespace
}  // namespace fsdp
