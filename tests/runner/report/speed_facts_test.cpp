#include "runner/answers/facts.h"
#include "tests/runner/report/made_up_results.h"

// Facts about speeds of made-up rows whose truth is known.
namespace fsdp {
namespace {

std::string names(const SeriesRows& rows) { return joined_texts(mapped(rows, &Series::name), " "); }

// "B C, then A", with the rows that are not ranked: "few: D". "": no row is ranked.
std::string told(const ComparisonRows& runs) {
  const std::deque<Series> all = series_of(runs);
  const SpeedFacts facts = speed_facts(mapped(all, [](const Series& row) { return &row; }));
  const auto listed = [](const std::string& label, const SeriesRows& rows) {
    return rows.empty() ? "" : label + names(rows);
  };
  const std::map<Speed, std::string> whys{{Speed::kOtherDevice, "other devices"},
                                          {Speed::kOtherModel, "other models"},
                                          {Speed::kOtherFilling, "other filling"}};
  return joined_texts(
      {facts.why_none_ranked ? whys.at(*facts.why_none_ranked) : "", names(facts.fastest),
       listed("then ", facts.next), listed("few: ", facts.too_few_steps),
       listed("busy: ", facts.disturbed), listed("at times: ", facts.at_times)},
      ", ");
}

struct FactCase {
  const char* truth;
  ComparisonRows rows;
  const char* fact;
};

const ComparisonRows kPair = runs_at({{"A", 1000}, {"B", 2000}});
const ComparisonRows kTriple = runs_at({{"A", 1000}, {"B", 2000}, {"C", 9000}});
const ComparisonRows kRepeats =
    repeated({{"A", {100, 101, 102, 103, 104}}, {"B", {120, 121, 122, 123, 124}}});

ComparisonRows with_steps(ComparisonRows rows, const std::vector<int64_t>& steps) {
  for (size_t i = 0; i < rows.size(); ++i) rows[i].steps = steps[i];
  return rows;
}

ComparisonRows unpadded(ComparisonRows rows, const std::vector<double>& speeds) {
  for (size_t i = 0; i < rows.size(); ++i) rows[i].unpadded_tokens_per_second = speeds[i];
  return rows;
}

TEST_CASE("the fastest of made-up rows, and those that are not ranked") {
  const std::vector<double> varying{700, 1010, 1500};
  const std::vector<double> ten_of_1000(10, 1000), ten_of_900(10, 900), ten_of_5000(10, 5000);
  const std::vector<FactCase> cases{
      {"one row has no rival", runs_at({{"A", 1000}}), ""},
      {"twice as fast", kPair, "B, then A"},
      {"the baseline is fastest", runs_at({{"A", 2000}, {"B", 1000}}), "A, then B"},
      {"equal", runs_at({{"A", 1000}, {"B", 1000}}), "A B"},
      {"4 % on a GPU is what one run moves by", runs_at({{"A", 1000}, {"B", 1040}}), "B A"},
      {"8 % on a GPU is not", runs_at({{"A", 1000}, {"B", 1080}}), "B, then A"},
      {"15 % on a CPU is what one run moves by", runs_at({{"A", 1000}, {"B", 1150}}, kCpu), "B A"},
      {"30 % on a CPU is not", runs_at({{"A", 1000}, {"B", 1300}}, kCpu), "B, then A"},
      {"steps vary by more than rows differ",
       with(kPair,
            [](auto& rows) {
              rows[0].step_time_ms_p25 = 1500;
              rows[1].step_time_ms_p75 = 2500;
            }),
       "B A"},
      {"two as fast as each other, one slower", runs_at({{"A", 1000}, {"B", 2000}, {"C", 2020}}),
       "C B"},
      {"two are next", runs_at({{"A", 1000}, {"B", 2000}, {"C", 1010}}), "B, then C A"},
      {"four steps after two of warm-up suffice", with_steps(kPair, {6, 6}), "B, then A"},
      {"three tell nothing", with_steps(kPair, {6, 5}), "few: B"},
      {"of runs of one step nothing is known", with_steps(kPair, {1, 1}), "few: B A"},
      {"one of three has too few steps", with_steps(kTriple, {100, 100, 3}), "B, then A, few: C"},
      {"three repeats of one step tell enough",
       with(repeated({{"A", {100, 101, 102}}, {"B", {150, 155, 160}}}),
            [](auto& rows) {
              for (ComparisonRow& row : rows) row.steps = 3;
            }),
       "B, then A"},
      {"faster because of tokens that fill up", unpadded(kPair, {990, 400}), "other filling"},
      {"equally fast without them", unpadded(kPair, {990, 1000}), "other filling"},
      {"faster with and without them", unpadded(kPair, {500, 1800}), "B, then A"},
      {"equally filled", unpadded(kPair, {500, 1001}), "B, then A"},
      {"other devices", with(kPair, [](auto& rows) { rows[1].device_name = "another"; }),
       "other devices"},
      {"an unknown device", with(kPair, [](auto& rows) { rows[1].device_name = ""; }),
       "other devices"},
      {"other models", with(kPair, [](auto& rows) { rows[1].spec.model.config.hidden_size = 8; }),
       "other models"},
      {"who failed does not win", ended(kPair, 1, RunStatus::kFailed), ""},
      {"nor what runs still", ended(kPair, 1, RunStatus::kRunning), ""},
      {"five repeats apart", kRepeats, "B, then A"},
      {"five repeats in a row on a CPU that drifts by as much",
       repeated({{"A", {100, 101, 102, 103, 104}}, {"B", {110, 111, 112, 113, 114}}}), "B A"},
      {"a 95 % interval of this ratio excludes 1 by chance",
       repeated({{"A", {100, 101, 103, 98, 106}}, {"B", {105, 106, 104, 107, 99}}}), "B A"},
      {"three repeats apart by less than a run moves",
       repeated({{"A", {100, 101, 102}}, {"B", {108, 109, 110}}}), "B A"},
      {"three repeats far apart", repeated({{"A", {100, 101, 102}}, {"B", {150, 155, 160}}}),
       "B, then A"},
      {"three repeats far apart in the middle, one overlaps",
       repeated({{"A", {100, 101, 170}}, {"B", {150, 155, 160}}}), "B A"},
      {"a repeat that failed counts for nothing",
       with(repeated({{"A", {100, 101, 102, 103, 104}}, {"B", {120, 121, 122, 123, 124, 900}}}),
            [](auto& rows) {
              rows.back().status = RunStatus::kFailed;
              rows.back().device_name = "another";
            }),
       "B, then A"},
      {"an infinite speed is none",
       with(kTriple, [](auto& rows) { rows[2].tokens_per_second = HUGE_VAL; }), "B, then A"},
      {"a row that fits once in five times is not fastest",
       with(repeated({{"A", {100, 100}}, {"B", {900, 1}}}),
            [](auto& rows) { rows[3].status = RunStatus::kOutOfMemory; }),
       "at times: B"},
      {"A ties with B and with C, and C is slower than B",
       repeated({{"A", varying}, {"B", ten_of_1000}, {"C", ten_of_900}}, kCuda), "A B"},
      {"so it is of rows that are next",
       repeated({{"A", varying}, {"B", ten_of_1000}, {"C", ten_of_900}, {"D", ten_of_5000}}, kCuda),
       "D, then A B"},
      {"a disturbed row is not beaten", disturbed(kPair, 0), "busy: A"},
      {"nor does it win", disturbed(kTriple, 2), "B, then A, busy: C"},
      {"two of five disturbed repeats move no median", disturbed(disturbed(kRepeats, 5), 6),
       "B, then A"},
      {"three of five do", disturbed(disturbed(disturbed(kRepeats, 5), 6), 7), "busy: B"},
  };
  for (const FactCase& one : cases) {
    INFO(one.truth);
    CHECK(told(one.rows) == one.fact);
  }
}

TEST_CASE("the page marks the fastest rows only if all rows are ranked and not all tie") {
  const auto best = [](const ComparisonRows& runs) {
    const std::deque<Series> all = series_of(runs);
    return names(fastest_rows(mapped(all, [](const Series& row) { return &row; })).rows);
  };
  CHECK(best(kTriple) == "C");
  CHECK(best(runs_at({{"A", 1000}, {"B", 1000}})).empty());
  CHECK(best(with_steps(kTriple, {3, 100, 100})).empty());
  CHECK(best(disturbed(kTriple, 0)).empty());
}

}  // namespace
}  // namespace fsdp
