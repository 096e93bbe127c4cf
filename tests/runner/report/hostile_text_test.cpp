#include <array>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text/utf8.h"
#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

const std::string kHostile = "=a\nFORGED\x1b[2J\r\xc2\x9b\x33m\u202E\xff</script>|&";

bool is_harmless(std::string_view text) {
  for (; !text.empty(); text.remove_prefix(std::max<size_t>(utf8_length(text), 1))) {
    const bool is_line_end = text.starts_with('\n') || text.starts_with("\r\n");
    if (utf8_length(text) == 0) return false;
    if (begins_with_control_character(text) && !is_line_end) return false;
  }
  return true;
}

bool has_forged_line(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("FORGED")) return true;
  }
  return false;
}

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

TEST_CASE("names and reasons of others forge no row and move no cursor, in any format") {
  Report report = hostile_report();
  for (const Format format : {Format::kTable, Format::kMarkdown, Format::kCsv, Format::kJson,
                              Format::kLatex, Format::kHtml}) {
    const std::string text = render(format, report);
    CAPTURE(name_of(format));
    CHECK(is_harmless(text));
    CHECK((format == Format::kCsv || !has_forged_line(text)));  // a CSV cell may hold line feeds
  }
  const auto read = nlohmann::json::parse(render(Format::kJson, report));
  CHECK(read["title"] == valid_utf8(kHostile));
  report.rows.resize(2);
  for (const Format format : {Format::kTable, Format::kMarkdown, Format::kLatex}) {
    const std::string text = render_differences(format, report);
    CHECK(is_harmless(text));
    CHECK_FALSE(has_forged_line(text));
  }
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
