#include "base/text/json.h"
#include "runner/series/run_keys.h"
#include "runner/series/series.h"
#include "tests/contract/applied_overrides.h"
#include "tests/runner/report/report_fixture.h"

// Names of runs that are no longer in their experiment's list.
namespace fsdp {
namespace {

using Names = std::vector<std::string>;

// A run with these changes of keys. `current`: the run is in the list.
ComparisonRow row_of(int64_t run, const std::string& point, bool current,
                     const std::string& changes = "{}") {
  ComparisonRow row = finished_row(run, point, StrategyKind::kFsdp, 4, 100);
  RunSpec spec;
  apply_overrides(spec, YAML::Load("{strategy: {kind: fsdp, ranks: 4}, batch.size_per_rank: 2}"),
                  {});
  apply_overrides(spec, YAML::Load(changes), {});
  row.spec = resolved(spec);
  row.current = current;
  return row;
}

Names names_of(std::vector<ComparisonRow> rows) {
  name_variants(rows);
  Names names;
  for (const ComparisonRow& row : rows) names.push_back(row.point);
  return names;
}

TEST_CASE("a run that left the list is named by what changed, behind the row of its point") {
  CHECK(names_of({row_of(1, "A", false, "{train.steps: 20}"), row_of(2, "A", true),
                  row_of(3, "B", true)}) == Names{"A", "A [train.steps=20]", "B"});
  const std::string many =
      "{train.seed: 7, train.steps: 9, optimizer.beta2: 0.9, optimizer.beta1: 0.5}";
  // Keys that follow from another, or say nothing of what a run is, are no change.
  const auto [listed, left, change] = GENERATE_REF(table<std::string, std::string, std::string>(
      {{"{}", "{batch.total: 32}", "batch.total=32"},
       {"{train.sequences: 64}", "{train.steps: 20}", "train.steps=20"},
       {"{}", "{slurm.nodes: 2, data.train: games.txt}", "run 2"},
       {"{train.seed: 7}", "{}", "train.seed=1"},
       {"{}", "{precision: bf16_true}", "precision.kind=bf16_true"},
       {"{}", many, "optimizer.beta1=0.5, optimizer.beta2=0.9, train.seed=7, 1 more, run 2"}}));
  CHECK(names_of({row_of(1, "A", true, listed), row_of(2, "A", false, left)}) ==
        Names{"A", "A [" + change + "]"});
}

TEST_CASE("many changes are cut, and then the run's number tells rows apart") {
  std::vector<ComparisonRow> rows{
      row_of(1, "A", true),
      row_of(2, "A", false, "{train.seed: 7, optimizer.beta2: 0.9, optimizer.beta1: 0.5}")};
  rows[1].data_digest = "other";
  CHECK(names_of(rows)[1] ==
        "A [optimizer.beta1=0.5, optimizer.beta2=0.9, train.seed=7, 1 more, run 2]");
}

TEST_CASE("runs that read other files say so, and stay apart") {
  std::vector<ComparisonRow> rows{row_of(1, "A", false), row_of(2, "A", false),
                                  row_of(3, "A", true)};
  rows[0].data_digest = "one";
  rows[1].data_digest = "two";
  CHECK(names_of(rows) == Names{"A", "A [other input files]", "A [other input files, run 2]"});
}

TEST_CASE("of a point that is in no list the newest run has its plain name") {
  CHECK(names_of({row_of(1, "gone", false), row_of(2, "gone", false, "{train.seed: 7}"),
                  row_of(3, "B", true)}) == Names{"B", "gone [train.seed=1]", "gone"});
}

TEST_CASE("repeats of a variant are one series") {
  std::vector<ComparisonRow> rows{row_of(1, "A #1", true), row_of(2, "A #2", true),
                                  row_of(3, "A #1", false, "{train.steps: 20}"),
                                  row_of(4, "A #2", false, "{train.steps: 20}")};
  for (ComparisonRow& row : rows) row.series = "A";
  name_variants(rows);
  CHECK(rows[2].point == "A #1 [train.steps=20]");
  CHECK(rows[2].series == "A [train.steps=20]");
  CHECK(rows[3].series == rows[2].series);
  const std::deque<Series> all = series_of(rows);
  REQUIRE(all.size() == 2);
  CHECK(all[1].runs.size() == 2);
}

TEST_CASE("a variant is no value of a doubled key, so that it changes no largest value") {
  std::vector<ComparisonRow> rows{row_of(1, "A", true), row_of(2, "A", false, "{train.seed: 7}")};
  for (ComparisonRow& row : rows) {
    row.family = "A";
    row.family_key = "batch.size_per_rank";
    row.family_value = 4;
  }
  name_variants(rows);
  CHECK(rows[0].family_value == 4);
  CHECK_FALSE(rows[1].family_value);
}

TEST_CASE("rows of one point in two experiments have nothing to do with each other") {
  std::vector<ComparisonRow> rows{row_of(1, "A", true), row_of(2, "A", false, "{train.seed: 7}"),
                                  row_of(3, "A", true)};
  rows[2].experiment = "other";
  CHECK(names_of(rows) == Names{"A", "A [train.seed=7]", "A"});
}

}  // namespace
}  // namespace fsdp
