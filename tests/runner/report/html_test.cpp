#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "runner/page/html_page.h"
#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

const std::string kMarkup = "</script><img src=x onerror=alert(1)><!-- & \"quoted\"";

Report report_with_markup() {
  ComparisonRow row;
  row.experiment = "lab";
  row.run = 7;
  row.point = kMarkup;
  row.series = kMarkup;
  row.attempt = 1;
  row.status = RunStatus::kFinished;
  row.step_time_ms_median = 0.1;
  RunDetail detail;
  detail.run = 7;
  detail.specification = kMarkup;
  detail.training_loss = thinned({{.x = 1, .y = 2.5}, {.x = 2, .y = {}}});
  Report report;
  report.title = kMarkup;
  report.rows = {row};
  report.html.runs = {detail};
  report.html.experiment_texts = {{"digest", kMarkup}};
  return report;
}

nlohmann::json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

size_t count_of(const std::string& part, const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_CASE("names and texts are data of the page and never markup") {
  const std::string page = render(Format::kHtml, report_with_markup());
  CHECK(count_of("<img", page) == 0);
  CHECK(count_of("<title>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&lt;!-- &amp; "
                 "&quot;quoted&quot;</title>",
                 page) == 1);
  CHECK(count_of("<script", page) == 3);
  CHECK(count_of("</script", page) == 3);

  const auto data = data_of(page);
  const auto run = data["runs"].at(0);
  CHECK(run["figures"]["point"] == kMarkup);
  CHECK(run["specification"] == kMarkup);
  CHECK(data["experiment_texts"]["digest"] == kMarkup);
}

TEST_CASE("the page's data hold every figure in full") {
  const auto data = data_of(render(Format::kHtml, report_with_markup()));
  const auto run = data["runs"].at(0);
  CHECK(run["figures"]["step_time_ms_median"] == 0.1);
  CHECK(run["figures"]["loss_last"].is_null());
  CHECK(run["training_loss"]["y"] == nlohmann::json::parse("[2.5, null]"));
  REQUIRE(data["blocks"].size() == 1);
  const auto rows = data["blocks"].at(0)["rows"];
  REQUIRE(rows.size() == 1);
  CHECK(rows.at(0)["cells"].size() == data["columns"].size());
}

TEST_CASE("groups are blocks of the page's rows, and warnings are told apart from notes") {
  Report report = report_with_markup();
  report.rows.push_back(report.rows[0]);
  report.rows[1].run = 8;
  report.rows[1].point = report.rows[1].series = "another";
  report.rows[1].spec.strategy.ranks = 2;
  report.rows[1].device_name = "another GPU";
  report.rows[0].device_name = "a GPU";
  CHECK(data_of(render(Format::kHtml, report))["blocks"].size() == 1);
  const auto warns_of_devices = [&] {
    return data_of(render(Format::kHtml, report))["warnings"].dump().find("different devices") !=
           std::string::npos;
  };
  CHECK(warns_of_devices());
  report.view.group = "ranks";
  const auto data = data_of(render(Format::kHtml, report));
  REQUIRE(data["blocks"].size() == 2);
  CHECK(data["blocks"].at(0)["title"] == "ranks: 1");
  CHECK(data["blocks"].at(1)["rows"].size() == 1);
  CHECK_FALSE(warns_of_devices());
}

TEST_CASE("charts and details are of the runs that are shown, in the order of the rows") {
  Report report = report_with_markup();
  for (const int64_t run : {8, 9}) {
    report.rows.push_back(report.rows[0]);
    report.rows.back().run = run;
    report.rows.back().point = report.rows.back().series = std::to_string(run);
    report.rows.back().spec.strategy.ranks = run;
  }
  report.view.sort = "-ranks";
  report.view.where = {"ranks > 1"};
  const auto shown = shown_runs(Format::kHtml, report);
  REQUIRE(shown.size() == 2);
  CHECK(shown[0]->run == 9);
  CHECK(shown[1]->run == 8);
}

TEST_CASE("the page loads nothing") {
  const std::string page = render(Format::kHtml, Report());
  CHECK_THAT(page, Catch::Contains("content=\"default-src 'none'; "));
  CHECK(count_of(" src=", page) == 0);
  CHECK(count_of("<link", page) == 1);
}

TEST_CASE("the program holds the page's files as they are") {
  const auto text_of = [](const std::string& path) {
    INFO(path);
    std::ifstream file(path, std::ios::binary);
    REQUIRE(file);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  };
  const std::string html = FSDP_HTML_FOLDER;
  CHECK(kHtmlPage == text_of(html + "/page.html"));
  CHECK(kHtmlStyle == text_of(html + "/report.css"));
  CHECK(kHtmlScript.ends_with(text_of(html + "/composition.js")));
  CHECK(kReportScript.ends_with(text_of(html + "/report.js")));
  CHECK(kPlanScript == text_of(html + "/plan.js"));
  CHECK(kFigureLibrary == text_of(std::string(D3_FOLDER) + "/d3.min.js"));
  CHECK_THAT(std::string(kFigureLicence), Catch::Contains("DISCLAIMED"));
}

TEST_CASE("a page has a title, an author and notes of its own") {
  Report report = report_with_markup();
  report.html.head = {.title = "Lab 3 & more", .author = kMarkup, .notes = kMarkup};
  const std::string page = render(Format::kHtml, report);
  CHECK_THAT(page, Catch::Contains("<title>Lab 3 &amp; more</title>"));
  CHECK(count_of("<script", page) == 3);
  const auto head = data_of(page)["head"];
  CHECK(head["author"] == kMarkup);
  CHECK(head["notes"] == kMarkup);
  CHECK(head["question"] == kMarkup);
}

TEST_CASE("figures call runs by what their points do not share, whatever a database holds") {
  Report report;
  for (const int64_t run : {1, 2, 3}) {
    report.rows.push_back(
        finished_row(run, "sweep batch=" + std::to_string(run), StrategyKind::kFsdp, 4, 100));
    report.html.runs.emplace_back().run = run;
  }
  const auto name_of = [&](size_t run) {
    return data_of(render(Format::kHtml, report))["runs"].at(run)["name"];
  };
  CHECK(name_of(0) == "batch=1");
  report.rows[2].series = report.rows[1].series;
  report.rows[2].point = "x";  // not the name of its series
  CHECK(name_of(0) == "batch=1");
  CHECK(name_of(2) == "x");
}

TEST_CASE("a narrow page keeps the columns that a narrow terminal keeps, with their short texts") {
  const auto data = data_of(render(Format::kHtml, lab_report()));
  std::map<std::string, nlohmann::json> cells;  // of the row with 4 ranks that differ
  std::set<std::string> kept;
  for (size_t i = 0; i < data["columns"].size(); ++i) {
    const auto& column = data["columns"].at(i);
    cells[column["name"]] = data["blocks"].at(0)["rows"].at(2)["cells"].at(i);
    if (column["shown_at_first"] == true && column["shown_if_narrow"] == true) {
      kept.insert(column["name"]);
    }
  }
  CHECK(kept == std::set<std::string>{"point", "memory_allocated_bytes_max", "tokens_per_second",
                                      "loss_last", "status"});
  CHECK(cells["memory_allocated_bytes_max"].at(1) == "1.00-1.25");
  CHECK(cells["memory_allocated_bytes_max"].at(2) == "1.25");
  CHECK(cells["loss_last"].at(1) == "6.9315 -> 2.5000");
  CHECK(cells["loss_last"].at(2) == "2.500");
}

TEST_CASE("columns that a reader chose are all shown on a narrow page") {
  Report report = lab_report();
  report.view.columns = {"point", "ranks", "tokens_per_second_ratio"};
  const auto data = data_of(render(Format::kHtml, report));
  CHECK(data["columns"].size() == 3);
  for (const auto& column : data["columns"]) {
    CHECK(column["shown_at_first"] == true);
    CHECK(column["shown_if_narrow"] == true);
  }
}

TEST_CASE("the best values of a page's table are those that noise cannot have made") {
  Report report;
  for (const int64_t run : {1, 2, 3}) {
    const double step_time_ms = run == 1 ? 100 : 200 + static_cast<double>(run);
    report.rows.push_back(
        finished_row(run, std::to_string(run), StrategyKind::kFsdp, 4, step_time_ms));
  }
  report.rows[2].memory_allocated_bytes_max = 2 * kGibibyte;
  const auto best = [&] {
    const auto data = data_of(render(Format::kHtml, report));
    std::vector<std::string> texts;
    for (const auto& row : data["blocks"].at(0)["rows"]) texts.push_back(row["best"].dump());
    return texts;
  };
  CHECK(best() == std::vector<std::string>{R"(["tokens_per_second"])", "[]",
                                           R"(["memory_allocated_bytes_max"])"});
  report.rows[0].device_name = "another processor";
  CHECK(best()[0] == "[]");
}

TEST_CASE("a long curve keeps its ends and its spikes, in order, and invents nothing") {
  std::vector<CurvePoint> series;
  for (int i = 0; i < 100'000; ++i) series.push_back({.x = i / 1.0, .y = 1.0 / (1 + i)});
  series[4'321].y = 50;
  series[98'765].y = -50;
  series[50'000].y.reset();
  const Curve curve = thinned(series);
  CHECK(curve.measured == 100'000);
  CHECK(curve.points.size() <= 500);
  CHECK(curve.points.size() > 400);
  CHECK(curve.points.front().x == 0);
  CHECK(curve.points.back().x == 99'999);
  std::optional<double> last;
  bool high = false;
  bool low = false;
  bool gap = false;
  for (const CurvePoint& point : curve.points) {
    CHECK(last.value_or(-1) < point.x);
    last = point.x;
    CHECK(series[static_cast<size_t>(point.x)].y == point.y);
    high = high || point.y == 50.0;
    low = low || point.y == -50.0;
    gap = gap || !point.y;
  }
  CHECK(high);
  CHECK(low);
  CHECK(gap);
}

TEST_CASE("a short curve is drawn as it is") {
  std::vector<CurvePoint> series(500);
  CHECK(thinned(series).points.size() == 500);
  CHECK(thinned({}).points.empty());
  series.resize(501);
  CHECK(thinned(series).points.size() < 501);
}

}  // namespace
}  // namespace fsdp
