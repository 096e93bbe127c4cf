#include "tests/runner/report/loss_sentences.h"
#include "tests/runner/report/speed_sentences.h"

// Compares the answers about made-up experiments with the truth.
namespace fsdp {
namespace {

struct Verdicts {
  int winners = 0, wrong = 0;
};

std::vector<Answer> answers_to(const MadeUpExperiment& made) {
  std::deque<Series> all = series_of(made.runs);
  put_baselines(all, "");
  put_ratios(all);
  put_scaling(all);
  SeriesRows rows;
  for (const Series& series : all) rows.push_back(&series);
  return answers_for(rows);
}

void check_experiment(const MadeUpExperiment& made, const std::vector<Answer>& answers,
                      Verdicts& verdicts) {
  SpeedSentences speed(made);
  LossSentences losses(made);
  for (const auto& [question, text] : answers) {
    if (question == "Loss") {
      losses.check(text);
    } else if (question == "Fits") {
      speed.check_fits(text);
    } else if (question == "Speed") {
      speed.check_speed(text);
    } else if (question == "Scaling") {
      speed.check_scaling(text);
    } else {
      speed.check_change(question, text);
    }
  }
  verdicts.winners += speed.has_winner() ? 1 : 0;
  verdicts.wrong += speed.is_wrong() ? 1 : 0;
}

TEST_CASE("no sentence about made-up experiments is false") {
  constexpr int kExperiments = 1'000;
  Verdicts verdicts;
  for (int seed = 0; seed < kExperiments; ++seed) {
    const MadeUpExperiment made = ExperimentMaker(static_cast<uint64_t>(seed)).make();
    const std::vector<Answer> answers = answers_to(made);
    try {
      check_experiment(made, answers, verdicts);
    } catch (const std::exception& error) {
      std::string all;
      for (const auto& [question, text] : answers) all += "\n" + question + ": " + text;
      FAIL_CHECK("seed " << seed << ": " << error.what() << all);
    }
  }
  CAPTURE(verdicts.wrong, verdicts.winners);
  CHECK(verdicts.wrong <= kExperiments / 20);
  CHECK(verdicts.winners >= kExperiments / 10);
}

// Makes 200 experiments whose rows are equally fast. Returns how many answers name only some rows
// as fastest.
int false_sentences(size_t rows, int64_t repeats, int noise_shape) {
  int found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const ComparisonRows runs = ExperimentMaker(seed).equal_rows(rows, repeats, noise_shape);
    const std::deque<Series> all = series_of(runs);
    SeriesRows compared;
    for (const Series& series : all) compared.push_back(&series);
    if (speed_answer(compared).find("fastest") != std::string::npos) ++found;
  }
  return found;
}

TEST_CASE("of 2 to 30 equal rows the sentence about speed leaves none out in 95 % of reports") {
  for (const size_t rows : {2u, 10u, 30u}) {
    for (const int64_t repeats : {1, 3, 5, 10}) {
      for (const int noise_shape : {0, 1, 2, 3}) {
        CAPTURE(rows, repeats, noise_shape);
        CHECK(false_sentences(rows, repeats, noise_shape) <= 10);
      }
    }
  }
}

}  // namespace
}  // namespace fsdp
