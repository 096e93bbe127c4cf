#include <nlohmann/json.hpp>

#include "base/text/config_error.h"
#include "tests/runner/report/report_fixture.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

constexpr const char* kText = R"(
title: A table
source: A paper
experiment: lab
tolerance: 0.1
points:
  - point: 1 GPU
    figures:
      memory_allocated_bytes_max: 2.75 GiB
      total_time_ms: {value: 60 s, tolerance: 0.5, note: by the clock}
      loss_last: {value: 1, tolerance: none}
      steps: {value: 100, tolerance: 0}
  - point: "never run"
    figures:
      steps: 100
)";

Reference reference_of(const std::string& text) {
  const TemporaryFolder folder;
  return read_reference(folder.write("reference.yaml", text));
}

std::string error_of(const std::string& text) {
  const TemporaryFolder folder;
  try {
    read_reference(folder.write("reference.yaml", text));
  } catch (const ConfigError& error) {
    return folder.without_folder(error.what());
  }
  return "no error";
}

// kText with `from` replaced.
std::string error_after(const std::string& from, const std::string& to) {
  std::string text = kText;
  text.replace(text.find(from), from.size(), to);
  return error_of(text);
}

Report two_points() {
  Report report;
  report.rows = {finished_row(1, "1 GPU", StrategyKind::kSingle, 1, 100),
                 finished_row(2, "4xDDP", StrategyKind::kDdp, 4, 100)};
  return report;
}

nlohmann::json rows_of(const Report& report, const std::string& text = kText) {
  return nlohmann::json::parse(
      render_reference(Format::kJson, report, reference_of(text)).text)["rows"];
}

TEST_CASE("a reference is read with units, tolerances and notes") {
  const Reference reference = reference_of(kText);
  CHECK(reference.experiment == "lab");
  CHECK(reference.points == std::vector<std::string>{"1 GPU", "never run"});
  REQUIRE(reference.figures.size() == 5);
  CHECK(reference.figures[0].value == 2.75 * kGibibyte);
  CHECK(reference.figures[0].tolerance == 0.1);
  CHECK(reference.figures[1].value == 60'000);
  CHECK(reference.figures[1].tolerance == 0.5);
  CHECK(reference.figures[1].note == "by the clock");
  CHECK_FALSE(reference.figures[2].tolerance);
  CHECK(reference.figures[4].point == "never run");
}

TEST_CASE("a published figure may be called by its column's heading, and has its units") {
  std::string text = kText;
  const std::string name = "memory_allocated_bytes_max";
  text.replace(text.find(name), name.size(), "memory");
  const PublishedFigure figure = reference_of(text).figures[0];
  CHECK(figure.column == name);
  CHECK(figure.value == 2.75 * kGibibyte);
}

TEST_CASE("measured figures stand beside the published ones with ratio and verdict") {
  const auto rows = rows_of(two_points());
  CHECK(rows[0]["measured"] == 3 * kGibibyte);
  CHECK(rows[0]["ratio"] == Approx(3 / 2.75));
  CHECK(rows[0]["verdict"] == "ok");
  CHECK(rows[1]["verdict"] == "ok");  // measured: 83.456 s
  CHECK(rows[2]["verdict"] == "not judged");
  CHECK(rows[3]["verdict"] == "ok");
  CHECK(rows[4]["verdict"] == "no run");
  const ReferenceReport report =
      render_reference(Format::kTable, two_points(), reference_of(kText));
  CHECK(report.passed);
  CHECK_THAT(report.text,
             Catch::Contains("  2.75 GiB    3.00 GiB  x1.09     10.0 %  ok") &&
                 Catch::Contains("Published, but not run here: never run.") &&
                 Catch::Contains("Run here, but not published: 4xDDP.") &&
                 Catch::Contains("3 figures within the tolerance, 0 outside, 1 not judged."));
}

TEST_CASE("a figure outside its tolerance fails, and so does a comparison of nothing") {
  Report report = two_points();
  report.rows[0].steps = 99;
  CHECK(rows_of(report)[3]["verdict"] == "differs");
  CHECK_FALSE(render_reference(Format::kCsv, report, reference_of(kText)).passed);

  report = two_points();
  report.rows[0].status = RunStatus::kOutOfMemory;
  CHECK(rows_of(report)[0]["verdict"] == "not measured");
  CHECK_FALSE(render_reference(Format::kCsv, report, reference_of(kText)).passed);
  report.rows.clear();
  CHECK(rows_of(report)[0]["verdict"] == "no run");
}

TEST_CASE("a mistake in a reference is refused with its place and what is allowed") {
  CHECK(error_after("tolerance: 0.1", "tolerence: 0.1") ==
        "reference.yaml:5:1: 'tolerence': unknown key; did you mean 'tolerance'? allowed: "
        "title, source, experiment, tolerance, points");
  CHECK_THAT(error_after("experiment: lab\n", ""),
             Catch::Contains("'experiment': is missing; needed: experiment, tolerance, points"));
  CHECK_THAT(
      error_after("memory_allocated_bytes_max", "memory_alocated_bytes_max"),
      Catch::Contains("reference.yaml:9:7: there is no column 'memory_alocated_bytes_max'") &&
          Catch::Contains("did you mean 'memory_allocated_bytes_max'?"));
  CHECK_THAT(error_after("2.75 GiB", "2.75 GB"),
             Catch::Contains("reference.yaml:9:35:") &&
                 Catch::Contains("allowed: a number, or one with bytes, KiB, MiB, GiB"));
  CHECK_THAT(error_after("tolerance: 0.5", "tolerance: -1"), Catch::Contains("at least 0"));
  CHECK_THAT(error_after("value: 60 s, ", ""), Catch::Contains("'value': is missing"));
  CHECK_THAT(error_after("\"never run\"", "1 GPU"), Catch::Contains("'1 GPU' is given twice"));
}

TEST_CASE("the shipped reference is the published lab") {
  const Reference reference = read_reference(FSDP_REFERENCE_FILE);
  CHECK(reference.experiment == "lab");
  CHECK(reference.points.size() == 5);
  double sum_of_rates = 0;
  for (const PublishedFigure& figure : reference.figures) {
    if (figure.column == "micro_batches_per_second") sum_of_rates += figure.value;
  }
  CHECK(sum_of_rates == Approx(1.89 + 2.41 + 0.61 + 0.57 + 0.43));
}

}  // namespace
}  // namespace fsdp
