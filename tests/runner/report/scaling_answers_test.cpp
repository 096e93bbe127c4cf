#include <random>

#include "tests/runner/report/made_up_results.h"

// Tests the answers about rows on more ranks, with a known truth.
namespace fsdp {
namespace {

constexpr const char* k90Percent =
    "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 90 %";

// Cases of single runs, and of differences that may be noise.
std::vector<Case> cases_of_scaling() {
  const ComparisonRows weak{on_ranks("1", 1, 1000), on_ranks("4", 4, 900)};
  return {
      {"each rank does what it did alone, a tenth slower", weak, "Scaling", k90Percent},
      {"the total batch stays, by less accumulation",
       {on_ranks("1", 1, 1000, kCuda, 4), on_ranks("4", 4, 500)},
       "Scaling",
       "strong scaling (the total batch stays the same), tokens/s of a rank relative to 1: 4 50 %"},
      {"3 % on a GPU is what one run moves by",
       {on_ranks("1", 1, 1000), on_ranks("4", 4, 970)},
       "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "97 % (within noise of 100 %)"},
      {"faster than alone",
       {on_ranks("1", 1, 1000), on_ranks("4", 4, 1100)},
       "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "110 %"},
      {"10 % on a CPU is what one run moves by",
       {on_ranks("1", 1, 1000, kCpu), on_ranks("4", 4, 900, kCpu)},
       "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "90 % (within noise of 100 %)"},
      {"steps vary by more than the ranks cost",
       with(weak, [](auto& rows) { rows[1].step_time_ms_p25 = *rows[1].step_time_ms_p25 * 0.8; }),
       "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "90 % (within noise of 100 %)"},
      {"three steps tell nothing", with(weak, [](auto& rows) { rows[0].steps = 5; }), "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "90 % (too few steps to tell)"},
      {"others took CPU time", disturbed(weak, 0), "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "not known (other processes took CPU time)"},
      {"five repeats show a fifth on a CPU too",
       scaled_repeats({100, 101, 99, 100, 100}, {80, 81, 79, 80, 80}), "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "80 %"},
      {"five repeats that overlap show nothing",
       scaled_repeats({100, 60, 99, 100, 130}, {90, 110, 65, 90, 99}), "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "90 % (within noise of 100 %)"},
      {"several against one",
       {on_ranks("1", 1, 1000), on_ranks("2", 2, 900), on_ranks("4", 4, 800)},
       "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 2 "
       "90 %, 4 80 %"},
      {"more than four are counted",
       {on_ranks("1", 1, 1000), on_ranks("2", 2, 900), on_ranks("4", 4, 800), on_ranks("8", 8, 700),
        on_ranks("16", 16, 600), on_ranks("32", 32, 500), on_ranks("64", 64, 400)},
       "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 2 "
       "90 % (within noise of 100 %), 4 80 %, 8 70 %, 16 60 %, 2 more"},
  };
}

std::vector<Case> cases_without_scaling() {
  const ComparisonRows weak{on_ranks("1", 1, 1000), on_ranks("4", 4, 900)};
  return {
      {"the base did not fit, so that two ranks are it",
       ended({on_ranks("1", 1, 1000), on_ranks("2", 2, 1000), on_ranks("4", 4, 900)}, 0,
             RunStatus::kOutOfMemory),
       "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 2: 4 "
       "90 %"},
      {"who failed does not scale", ended(weak, 1, RunStatus::kFailed), "Scaling", ""},
      {"as many ranks", {on_ranks("1", 4, 1000), on_ranks("4", 4, 900)}, "Scaling", ""},
      {"another device", with(weak, [](auto& rows) { rows[1].device_name = "another"; }), "Scaling",
       ""},
      {"neither the work of a rank nor the total batch stays",
       {on_ranks("1", 1, 1000, kCuda, 3), on_ranks("4", 4, 900)},
       "Scaling",
       ""},
      {"fewer threads are told of",
       with(weak,
            [](auto& rows) {
              rows[0].threads = 8;
              rows[1].threads = 2;
            }),
       "Scaling",
       "weak scaling (the total batch grows with the ranks), tokens/s of a rank relative to 1: 4 "
       "90 %; ranks of some rows have fewer CPU threads"},
  };
}

TEST_CASE("answers about scaling whose truth is known") {
  check(cases_of_scaling());
  check(cases_without_scaling());
}

TEST_CASE("of ranks that do as much as one alone none is said to do less or more") {
  std::mt19937_64 random(7);
  std::normal_distribution<double> run_to_run(1, 0.05);
  constexpr int kExperiments = 400;
  int false_claims = 0;
  for (int experiment = 0; experiment < kExperiments; ++experiment) {
    std::vector<double> of_one, of_four;
    for (int repeat = 0; repeat < (experiment % 2 == 0 ? 1 : 5); ++repeat) {
      of_one.push_back(1000 * run_to_run(random));
      of_four.push_back(1000 * run_to_run(random));
    }
    const std::string answer = answer_of(scaled_repeats(of_one, of_four), "Scaling");
    REQUIRE_FALSE(answer.empty());
    if (answer.find("within noise") == std::string::npos) ++false_claims;
  }
  CHECK(false_claims <= kExperiments / 50);
}

}  // namespace
}  // namespace fsdp
