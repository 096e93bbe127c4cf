#include "runner/store/summary.h"

#include <catch2/catch.hpp>

namespace fsdp {
namespace {

// A rank whose steps 1.. take these times, each event written `time_ms` after the one before.
MeasuredRank rank_with(const std::vector<double>& step_times_ms, int64_t memory_bytes) {
  MeasuredRank rank;
  int64_t time_unix_ms = 2'000;
  for (const double step_time_ms : step_times_ms) {
    MeasuredStep& step = rank.steps.emplace_back();
    time_unix_ms += static_cast<int64_t>(step_time_ms);
    step.time_unix_ms = time_unix_ms;
    step.done.step = static_cast<int64_t>(rank.steps.size());
    step.done.step_time_ms = step_time_ms;
    step.done.tokens = 600;
    step.done.loss = 5.0 - static_cast<double>(rank.steps.size());
    step.done.memory_allocated_bytes_forward = memory_bytes / 2;
    step.done.memory_allocated_bytes_max = memory_bytes;
    step.done.memory_reserved_bytes_max = 2 * memory_bytes;
  }
  return rank;
}

TEST_CASE("step times are those of the slowest rank, without the warm-up") {
  MeasuredAttempt attempt;
  attempt.warmup_steps_excluded = 1;
  attempt.gradient_accumulation_steps = 4;
  attempt.started_unix_ms = 1'000;
  attempt.ranks = {rank_with({900, 10, 20, 30, 40}, 70), rank_with({100, 15, 12, 50, 35}, 90)};
  attempt.ranks[0].ended_unix_ms = 4'000;
  attempt.ranks[1].ended_unix_ms = 4'500;

  // Slowest: 15, 20, 50, 40.
  const AttemptSummary summary = summarise(attempt);
  CHECK(summary.steps == 5);
  CHECK(summary.step_time_ms_median == 30);
  CHECK(summary.step_time_ms_p25 == 18.75);
  CHECK(summary.step_time_ms_p75 == 42.5);
  CHECK(summary.steps_per_second.value() == Approx(1000.0 / 30));
  CHECK(summary.micro_batches_per_second.value() == Approx(4000.0 / 30));
  CHECK(summary.tokens_per_second.value() == Approx(600 * 1000.0 / 30));
  CHECK(summary.memory_allocated_bytes_max == 90);
  CHECK(summary.memory_allocated_bytes_min == 70);
  CHECK(summary.memory_reserved_bytes_max == 180);
  CHECK(summary.memory_reserved_bytes_min == 140);
  CHECK(summary.loss_first == 4.0);
  CHECK(summary.loss_last == 0.0);
  CHECK(summary.total_time_ms == 3'500);
  CHECK(summary.start_up_time_ms == 1'000);

  const RankSummary rank = summarise(attempt.ranks[1], 1);
  CHECK(rank.steps == 5);
  CHECK(rank.step_time_ms_median == 25);
  CHECK(rank.memory_allocated_bytes_forward == 45);
  CHECK(rank.memory_allocated_bytes_max == 90);
}

TEST_CASE("with no more steps than the warm-up all of them count") {
  MeasuredAttempt attempt;
  attempt.warmup_steps_excluded = 3;
  attempt.ranks = {rank_with({30, 10, 20}, 1)};
  CHECK(summarise(attempt).step_time_ms_median == 20);
  attempt.warmup_steps_excluded = 2;
  CHECK(summarise(attempt).step_time_ms_median == 20);
  attempt.warmup_steps_excluded = 1;
  CHECK(summarise(attempt).step_time_ms_median == 15);
}

TEST_CASE("only steps that every rank did count, memory and losses are of all") {
  MeasuredAttempt attempt;
  attempt.ranks = {rank_with({10, 20, 1000}, 50), rank_with({11, 19}, 40),
                   rank_with({5, 6, 7}, 60)};
  AttemptSummary summary = summarise(attempt);
  CHECK(summary.steps == 2);
  CHECK(summary.step_time_ms_median == 15.5);
  CHECK(summary.memory_allocated_bytes_min == 40);
  CHECK(summary.loss_last == 2.0);

  attempt.ranks.push_back({});
  summary = summarise(attempt);
  CHECK(summary.steps == 0);
  CHECK_FALSE(summary.step_time_ms_median);
  CHECK_FALSE(summary.steps_per_second);
  CHECK(summary.memory_allocated_bytes_max == 60);
}

TEST_CASE("the total time of an attempt with a killed rank lasts until the runner saw its end") {
  MeasuredAttempt attempt;
  attempt.started_unix_ms = 1'000;
  attempt.ranks = {rank_with({10}, 1), rank_with({10}, 1)};
  attempt.ranks[0].ended_unix_ms = 3'000;
  CHECK_FALSE(summarise(attempt).total_time_ms);
  attempt.ended_unix_ms = 8'000;
  CHECK(summarise(attempt).total_time_ms == 7'000);
}

TEST_CASE("steps are those of the attempt, whatever their numbers") {
  MeasuredAttempt attempt;
  attempt.ranks = {rank_with({30, 10, 20}, 1)};
  for (MeasuredStep& step : attempt.ranks[0].steps) step.done.step += 100;
  CHECK(summarise(attempt).steps == 3);
  CHECK(summarise(attempt.ranks[0], 0).steps == 3);
}

TEST_CASE("steps that were skipped or not finite are counted") {
  MeasuredAttempt attempt;
  attempt.ranks = {rank_with({10, 10, 10, 10}, 1), rank_with({10, 10, 10, 10}, 1)};
  CHECK(summarise(attempt).skipped_steps == 0);
  CHECK(summarise(attempt).non_finite_steps == 0);
  for (MeasuredRank& rank : attempt.ranks) {
    for (const size_t step : {0, 1, 3}) rank.steps[step].done.skipped = true;
    rank.steps[3].done.non_finite = true;
  }
  CHECK(summarise(attempt).skipped_steps == 3);
  CHECK(summarise(attempt).non_finite_steps == 1);
  attempt.ranks[0].steps.clear();
  CHECK_FALSE(summarise(attempt).skipped_steps);
}

TEST_CASE("validation figures are of the first, the last and the best evaluation") {
  MeasuredAttempt attempt;
  attempt.ranks = {rank_with({10}, 1)};
  CHECK_FALSE(summarise(attempt).validation_loss_best);
  CHECK_FALSE(summarise(attempt).token_accuracy_last);
  const auto evaluation = [](std::optional<double> loss, double accuracy) {
    EvaluationDone done;
    done.loss = loss;
    done.token_accuracy = accuracy;
    return done;
  };
  attempt.evaluations = {evaluation(4, 0.1), evaluation(std::nullopt, 0), evaluation(2, 0.5),
                         evaluation(3, 0.4)};
  const AttemptSummary summary = summarise(attempt);
  CHECK(summary.validation_loss_first == 4);
  CHECK(summary.validation_loss_last == 3);
  CHECK(summary.validation_loss_best == 2);
  CHECK(summary.token_accuracy_last == 0.4);
}

TEST_CASE("the time of writing a checkpoint is the median") {
  MeasuredAttempt attempt;
  attempt.ranks = {rank_with({10}, 1)};
  CHECK_FALSE(summarise(attempt).checkpoint_write_time_ms_median);
  for (const double time_ms : {90, 10, 40}) {
    attempt.checkpoints.emplace_back().write_time_ms = time_ms;
  }
  CHECK(summarise(attempt).checkpoint_write_time_ms_median == 40);
}

TEST_CASE("a loss that is not finite is absent") {
  MeasuredAttempt attempt;
  attempt.ranks = {rank_with({10, 10}, 1)};
  attempt.ranks[0].steps.back().done.loss.reset();
  CHECK(summarise(attempt).loss_first == 4.0);
  CHECK_FALSE(summarise(attempt).loss_last);
}

}  // namespace
}  // namespace fsdp
