#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "runner/report/columns.h"
#include "runner/store/quantile.h"
#include "runner/table/number_text.h"
#include "tests/runner/report/report_fixture.h"

namespace fsdp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr std::array<Format, 7> kFormats{Format::kTable, Format::kMarkdown, Format::kCsv,
                                         Format::kJson,  Format::kJsonl,    Format::kLatex,
                                         Format::kHtml};

TEST_CASE("figures beyond all measure are shown as what they are") {
  CHECK(three_digits(kInfinity) == "inf");
  CHECK(three_digits(-kInfinity) == "-inf");
  CHECK(three_digits(kNan) == "nan");
  CHECK(three_digits(-kNan) == "nan");
  CHECK(three_digits(1e308) == "1.00e+308");
  CHECK(three_digits(-1e308) == "-1.00e+308");
  CHECK(three_digits(5e-324) == "0.000000");
  CHECK(three_digits(999'999'999'999'999.0) == "999999999999999");
  CHECK(decimals(3.79e35, 4) == "3.79e+35");
  CHECK(decimals(6.931471805599453, 4) == "6.9315");
  CHECK(ratio(kInfinity) == "xinf");
  CHECK(ratio(kNan) == "-");
  CHECK(duration(kInfinity) == "inf ms");
  CHECK(duration(kNan) == "nan ms");
  CHECK(duration(1e300) == "1.00e+300 ms");
  CHECK(duration(-3'599'547) == "-1 h 00 min");
  CHECK(duration(-850) == "-850 ms");
  CHECK(gibibytes(kMost) == "8589934592");
  CHECK(gibibytes(kLeast) == "-8589934592");
}

TEST_CASE("a figure is never cut: what is shown can be read back, near what it was") {
  std::mt19937_64 random(18);
  for (int i = 0; i < 5'000; ++i) {
    const auto value = std::bit_cast<double>(random());
    CAPTURE(i, value);
    for (const std::string& text : {three_digits(value), decimals(value, 4)}) {
      const double read = std::strtod(text.c_str(), nullptr);
      const bool is_near =
          std::abs(read - value) <= std::max(0.005 * std::abs(value), 0.00005) || read == value;
      if (!(is_near || (std::isnan(read) && std::isnan(value)))) FAIL_CHECK(text);
    }
    duration(value);
    ratio(value);
  }
}

TEST_CASE("quantiles of infinite numbers are numbers") {
  std::vector<double> values{1, kInfinity, kInfinity, kInfinity, 2};
  CHECK(quantile(values, 0.25) == 2);
  CHECK(quantile(values, 0.6) == kInfinity);
  CHECK(median({kInfinity, kInfinity}) == kInfinity);
}

// Sets most numbers of a row to values that nothing measures.
template <typename Row>
void make_extreme(Row& row, std::mt19937_64& random) {
  constexpr std::array<double, 9> kReals{kInfinity, -kInfinity, 1e308,   -1e308, 5e-324,
                                         0,         -1,         1.7e308, 1};
  constexpr std::array<int64_t, 6> kIntegers{kLeast, kMost, 0, -1, 1, kMost - 1};
  Row::visit_fields(row, [&](const std::string_view name, auto& member, auto&&...) {
    using Member = std::decay_t<decltype(member)>;
    if (name == "run" || random() % 3 == 0) return;
    if constexpr (std::same_as<Member, double> || std::same_as<Member, std::optional<double>>) {
      member = kReals[random() % kReals.size()];
    } else if constexpr (std::same_as<Member, int64_t> ||
                         std::same_as<Member, std::optional<int64_t>>) {
      member = kIntegers[random() % kIntegers.size()];
    }
  });
}

Report extreme_report(std::mt19937_64& random) {
  Report report = lab_report();
  for (int repeat = 0; repeat < 3; ++repeat) {
    report.rows.push_back(finished_row(7 + repeat, "repeated", StrategyKind::kFsdp, 4, 10));
    report.rows.back().series = "series";
  }
  for (ComparisonRow& row : report.rows) {
    row.loss_digest = "equal";
    make_extreme(row, random);
  }
  report.view.columns = {};
  return report;
}

TEST_CASE("one row with figures beyond all measure does not take a report down") {
  std::mt19937_64 random(180);
  for (int i = 0; i < 30; ++i) {
    CAPTURE(i);
    Report report = extreme_report(random);
    if (i % 3 == 1) report.row_kind = RowKind::kRun;
    for (const Format format : kFormats) CHECK_FALSE(render(format, report).empty());
    CHECK(json_rows(report).size() == report.rows.size());
  }
}

TEST_CASE("a list of more nodes than there are does not hang a report") {
  Report report;
  for (int run = 1; run <= 2; ++run) {
    report.rows.push_back(finished_row(run, std::to_string(run), StrategyKind::kFsdp, 4, 10));
    report.rows.back().started_unix_ms = 0;
  }
  report.rows[0].node_list = "n[0-999999999]";
  report.rows[1].node_list = std::string(1'000'000, 'n');
  CHECK_FALSE(table_of(report).empty());
}

TEST_CASE("every column shows figures beyond all measure") {
  std::mt19937_64 random(1800);
  for (const RunColumn& column : columns()) {
    CAPTURE(column.name);
    Report report = extreme_report(random);
    report.view.columns = {"point", column.name};
    report.view.sort = column.name;
    CHECK_FALSE(table_of(report).empty());
  }
}

TEST_CASE("a median of the largest integers is not a negative one") {
  Report report;
  for (int repeat = 0; repeat < 2; ++repeat) {
    report.rows.push_back(finished_row(1 + repeat, "repeated", StrategyKind::kFsdp, 4, 10));
    report.rows.back().series = "series";
    report.rows.back().memory_allocated_bytes_max = kMost;
  }
  report.row_kind = RowKind::kSeries;
  report.view.columns = {"memory_allocated_bytes_max"};
  CHECK(render(Format::kCsv, report) == "memory_allocated_bytes_max\r\n9223372036854775807\r\n");
}

}  // namespace
}  // namespace fsdp
