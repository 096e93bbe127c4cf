#include "runner/series/series.h"
#include "tests/runner/report/report_fixture.h"

// Tests which row is the baseline of a row with more ranks.
namespace fsdp {
namespace {

constexpr int64_t kSize = 4;  // sequences per rank and micro-batch

// `speed` is in tokens per second and rank. One rank is `single`, more are fsdp.
ComparisonRow row_of(const std::string& point, int64_t ranks, int64_t accumulation, double speed) {
  static int64_t number = 0;
  const bool is_alone = ranks == 1;
  ComparisonRow row = finished_row(
      ++number, point, is_alone ? StrategyKind::kSingle : StrategyKind::kFsdp, ranks, 100);
  row.spec.batch.gradient_accumulation_steps = accumulation;
  row.spec.batch.total = kSize * ranks * accumulation;
  row.tokens_per_second_per_rank = speed;
  row.spec.train.steps = 192 / *row.spec.batch.total;
  return row;
}

using Names = std::vector<std::string>;

// Returns "weak of 1 GPU: 90" for each row, or "" for a row without a baseline.
Names scaling_of(const std::vector<ComparisonRow>& rows) {
  std::deque<Series> all = series_of(rows);
  put_scaling(all);
  Names texts;
  for (const Series& series : all) {
    const auto percent = scaling_efficiency_percent(series.scaling, series.median);
    texts.push_back(series.scaling ? fmt::format("{} of {}: {:.0f}", name_of(series.scaling->kind),
                                                 series.scaling->base->median.point, *percent)
                                   : "");
  }
  return texts;
}

TEST_CASE("a row is measured against one rank with the same work a rank, or the same total batch") {
  CHECK(scaling_of({row_of("1 GPU", 1, 1, 1000), row_of("4 GPUs", 4, 1, 900)}) ==
        Names{"base of 1 GPU: 100", "weak of 1 GPU: 90"});
  CHECK(scaling_of({row_of("1 GPU", 1, 4, 1000), row_of("4 GPUs", 4, 1, 800)}) ==
        Names{"base of 1 GPU: 100", "strong of 1 GPU: 80"});
  CHECK(scaling_of({row_of("1 GPU", 1, 3, 1000), row_of("4 GPUs", 4, 1, 800)}) == Names{"", ""});
}

TEST_CASE("the base has the fewest ranks, then the same strategy, then the same total batch") {
  CHECK(scaling_of({row_of("2", 2, 1, 950), row_of("1", 1, 1, 1000), row_of("4", 4, 1, 900)}) ==
        Names{"weak of 1: 95", "base of 1: 100", "weak of 1: 90"});
  CHECK(scaling_of({row_of("2", 2, 1, 1000), row_of("4", 4, 1, 900)}) ==
        Names{"base of 2: 100", "weak of 2: 90"});
  CHECK(scaling_of(
            {row_of("weak", 1, 1, 1000), row_of("strong", 1, 4, 500), row_of("4", 4, 1, 400)}) ==
        Names{"", "base of strong: 100", "strong of strong: 80"});
  std::vector<ComparisonRow> rows{row_of("single", 1, 1, 1000), row_of("fsdp", 1, 1, 500),
                                  row_of("4", 4, 1, 400)};
  rows[1].spec.strategy.kind = StrategyKind::kFsdp;
  CHECK(scaling_of(rows) == Names{"", "base of fsdp: 100", "weak of fsdp: 80"});
}

TEST_CASE("the strategy may be another than that of one rank, and of no others") {
  std::vector<ComparisonRow> rows{row_of("2xFSDP", 2, 1, 1000), row_of("4xDDP", 4, 1, 900)};
  rows[1].spec.strategy.kind = StrategyKind::kDdp;
  CHECK(scaling_of(rows) == Names{"", ""});
  rows.push_back(row_of("1 GPU", 1, 1, 1000));
  CHECK(scaling_of(rows) == Names{"weak of 1 GPU: 100", "weak of 1 GPU: 90", "base of 1 GPU: 100"});
}

TEST_CASE("what differs in anything else is no base") {
  const std::vector<std::function<void(RunSpec&)>> changes{
      [](auto& spec) { spec.model.config.hidden_size = 8; },
      [](auto& spec) { spec.batch.size_per_rank = 8; },
      [](auto& spec) { spec.strategy.offload = Offload::kOptimizer; },
      [](auto& spec) { spec.train.seed = 2; },
      [](auto& spec) { spec.precision.kind = PrecisionKind::kBf16True; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    std::vector<ComparisonRow> rows{row_of("1 GPU", 1, 1, 1000), row_of("4 GPUs", 4, 1, 900)};
    changes[i](rows[1].spec);
    CHECK(scaling_of(rows) == Names{"", ""});
  }
}

TEST_CASE("a row that cannot be compared by speed is no base and scales against none") {
  std::vector<ComparisonRow> rows{row_of("1 GPU", 1, 1, 1000), row_of("2 GPUs", 2, 1, 950),
                                  row_of("4 GPUs", 4, 1, 900)};
  rows[0].cpu_time_others_percent = rows[0].run_queue_wait_percent = 50;
  CHECK(scaling_of(rows) == Names{"", "base of 2 GPUs: 100", "weak of 2 GPUs: 95"});
}

TEST_CASE("what is asked of a queue, and how many steps are done, is no difference") {
  std::vector<ComparisonRow> rows{row_of("1 GPU", 1, 1, 1000), row_of("4 GPUs", 4, 1, 900)};
  rows[1].spec.slurm.nodes = 2;
  rows[1].spec.train.steps = 77;
  CHECK(scaling_of(rows).back() == "weak of 1 GPU: 90");
}

TEST_CASE("neither another device or experiment is a base, nor what did not finish") {
  const std::vector<std::function<void(std::vector<ComparisonRow>&)>> changes{
      [](auto& rows) { rows[0].device_name = "another"; },
      [](auto& rows) { rows[0].experiment = "another"; },
      [](auto& rows) { rows[0].status = RunStatus::kOutOfMemory; },
      [](auto& rows) { rows[1].tokens_per_second_per_rank.reset(); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    CAPTURE(i);
    std::vector<ComparisonRow> rows{row_of("1 GPU", 1, 1, 1000), row_of("4 GPUs", 4, 1, 900)};
    changes[i](rows);
    CHECK(scaling_of(rows) == Names{"", ""});
  }
}

TEST_CASE("the column is there where rows scale, for people with --wide") {
  Report report;
  report.rows = {row_of("1 GPU", 1, 1, 1000), row_of("4 GPUs", 4, 1, 900)};
  CHECK_THAT(table_of(report), !Catch::Contains("caling"));
  report.view.wide = true;
  CHECK_THAT(render(Format::kMarkdown, report), Catch::Contains("| scaling % |"));
  const auto json = json_rows(report);
  CHECK(json[0]["scaling"] == "base");
  CHECK(json[1]["scaling_efficiency_percent"] == 90.0);
  CHECK(json[1]["scaling_base"] == "1 GPU");
  CHECK(json[1]["scaling"] == "weak");
  report.rows.pop_back();
  CHECK_THAT(render(Format::kMarkdown, report), !Catch::Contains("caling"));
}

TEST_CASE("of repeats the medians scale, and each run against the base's median") {
  std::vector<ComparisonRow> rows{row_of("1 GPU", 1, 1, 1000), row_of("4 #1", 4, 1, 900),
                                  row_of("4 #2", 4, 1, 800)};
  rows[1].series = rows[2].series = "4";
  CHECK(scaling_of(rows).back() == "weak of 1 GPU: 85");
  Report report;
  report.rows = rows;
  const auto json = json_rows(report);
  CHECK(json[2]["scaling_efficiency_percent"] == 80.0);
}

}  // namespace
}  // namespace fsdp
