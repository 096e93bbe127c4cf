#include "runner/store/attempt_reports.h"

#include <catch2/catch.hpp>

namespace fsdp {
namespace {

// A rank's steps from `first_step` on, with their times.
struct StepsOfRank {
  std::vector<double> step_times_ms;
  int64_t memory_bytes = 1;
  int64_t first_step = 1;
};

std::vector<StepDone> steps_of(const StepsOfRank& rank) {
  std::vector<StepDone> steps;
  for (const double step_time_ms : rank.step_times_ms) {
    StepDone& done = steps.emplace_back();
    done.step = rank.first_step + std::ssize(steps) - 1;
    done.step_time_ms = step_time_ms;
    done.tokens = 600;
    done.unpadded_tokens = 450;
    done.label_count = 300;
    done.loss = 5.0 - static_cast<double>(steps.size());
    done.memory_allocated_bytes_forward = rank.memory_bytes / 2;
    done.memory_allocated_bytes_max = rank.memory_bytes;
    done.memory_reserved_bytes_forward = rank.memory_bytes - 1;
    done.memory_reserved_bytes_max = 2 * rank.memory_bytes;
  }
  return steps;
}

// Adds the events of a process that started at 1'000.
void add(AttemptReports& figures, int64_t rank, const std::vector<StepDone>& steps) {
  RunStarted started;
  started.steps_planned = std::ssize(steps);
  figures.add(rank, 1'000, started);
  double time_unix_ms = 2'000;
  for (const StepDone& done : steps) {
    time_unix_ms += done.step_time_ms;
    figures.add(rank, static_cast<int64_t>(time_unix_ms), done);
  }
}

AttemptReports figures_of(const std::vector<StepsOfRank>& ranks,
                          AttemptReports::Attempt attempt = {}) {
  attempt.ranks = std::ssize(ranks);
  AttemptReports figures(attempt);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    add(figures, static_cast<int64_t>(rank), steps_of(ranks[rank]));
  }
  return figures;
}

TEST_CASE("step times are those of the slowest rank, without the warm-up") {
  AttemptReports figures =
      figures_of({{.step_times_ms = {900, 10, 20, 30, 40}, .memory_bytes = 70},
                  {.step_times_ms = {100, 15, 12, 50, 35}, .memory_bytes = 90}},
                 {.warmup_steps_excluded = 1, .gradient_accumulation_steps = 4});
  figures.add(0, 4'000, RunFinished{});
  figures.add(1, 4'500, RunFailed{});

  // Step times of the slowest rank: 15, 20, 50, 40.
  const AttemptSummary summary = figures.summary(false);
  CHECK(summary.steps == 5);
  CHECK(summary.step_time_ms_median == 30);
  CHECK(summary.step_time_ms_p25 == 18.75);
  CHECK(summary.step_time_ms_p75 == 42.5);
  CHECK(summary.steps_per_second.value() == Approx(1000.0 / 30));
  CHECK(summary.micro_batches_per_second.value() == Approx(4000.0 / 30));
  CHECK(summary.tokens_per_second.value() == Approx(600 * 1000.0 / 30));
  CHECK(summary.tokens_per_second_per_rank.value() == Approx(600 * 1000.0 / 30 / 2));
  CHECK(summary.unpadded_tokens_per_second.value() == Approx(450 * 1000.0 / 30));
  CHECK(summary.trained_tokens_per_second.value() == Approx(300 * 1000.0 / 30));
  CHECK(summary.memory_allocated_bytes_max == 90);
  CHECK(summary.memory_allocated_bytes_min == 70);
  CHECK(summary.memory_reserved_bytes_max == 180);
  CHECK(summary.memory_reserved_bytes_min == 140);
  CHECK(summary.memory_allocated_bytes_forward_max == 45);
  CHECK(summary.memory_allocated_bytes_forward_min == 35);
  CHECK(summary.memory_reserved_bytes_forward_max == 89);
  CHECK(summary.loss_first == 4.0);
  CHECK(summary.loss_last == 0.0);
  CHECK(summary.total_time_ms == 3'500);
  CHECK(summary.start_up_time_ms == 1'000);

  const RankSummary rank = figures.rank_summary(1);
  CHECK(rank.steps == 5);
  CHECK(rank.step_time_ms_median == 25);
  CHECK(rank.memory_allocated_bytes_forward == 45);
  CHECK(rank.memory_allocated_bytes_max == 90);
}

TEST_CASE("the time of a suspended job counted as a step's") {
  std::vector<StepDone> steps = steps_of({.step_times_ms = {10, 20, 3'600'000, 30}});
  steps[2].suspended = true;
  AttemptReports figures({.ranks = 2});
  add(figures, 0, steps);
  add(figures, 1, steps_of({.step_times_ms = {10, 20, 3'600'000, 30}}));  // rank 1 waited
  const AttemptSummary summary = figures.summary(false);
  CHECK(summary.step_time_ms_median == 20);
  CHECK(summary.step_time_ms_p75 == 25);
  CHECK(summary.steps == 4);
  CHECK(figures.rank_summary(0).steps == 4);
  CHECK(figures.rank_summary(0).step_time_ms_median == 20);
  figures.add(0, 4'000, RunFinished{.steps = 4});
  CHECK(figures.ranks()[0].reason.empty());
}

TEST_CASE("figures are the same however the ranks' events are mixed") {
  const std::vector<StepDone> first = steps_of({.step_times_ms = {9, 1, 2, 3}});
  const std::vector<StepDone> second = steps_of({.step_times_ms = {1, 5, 1, 1}, .memory_bytes = 9});
  AttemptReports mixed({.ranks = 2});
  for (const size_t step : {0, 1, 2, 3}) {
    mixed.add(1, 1'000, second[step]);
    mixed.add(0, 1'000, first[step]);
  }
  AttemptReports one_by_one({.ranks = 2});
  add(one_by_one, 0, first);
  add(one_by_one, 1, second);
  const auto median = [](AttemptReports& figures) {
    return figures.summary(false).step_time_ms_median;
  };
  CHECK(median(mixed) == 4);
  CHECK(median(one_by_one) == 4);
  mixed.add(0, 1'000, first[3]);  // reported twice
  CHECK(mixed.summary(false).steps == 4);
  CHECK(mixed.rank_summary(0).steps == 4);
}

TEST_CASE("with no more steps than the warm-up all of them count") {
  const auto median = [](int64_t warmup_steps_excluded) {
    return figures_of({{.step_times_ms = {30, 10, 20}}},
                      {.warmup_steps_excluded = warmup_steps_excluded})
        .summary(false)
        .step_time_ms_median;
  };
  CHECK(median(3) == 20);
  CHECK(median(2) == 20);
  CHECK(median(1) == 15);
}

TEST_CASE("only steps that every rank did count, memory and losses are of all") {
  const std::vector<StepsOfRank> three{{.step_times_ms = {10, 20, 1000}, .memory_bytes = 50},
                                       {.step_times_ms = {11, 19}, .memory_bytes = 40},
                                       {.step_times_ms = {5, 6, 7}, .memory_bytes = 60}};
  AttemptSummary summary = figures_of(three).summary(false);
  CHECK(summary.steps == 2);
  CHECK(summary.step_time_ms_median == 15.5);
  CHECK(summary.memory_allocated_bytes_min == 40);
  CHECK(summary.loss_last == 2.0);

  std::vector<StepsOfRank> four = three;
  four.emplace_back();
  summary = figures_of(four).summary(false);
  CHECK(summary.steps == 0);
  CHECK_FALSE(summary.step_time_ms_median);
  CHECK_FALSE(summary.steps_per_second);
  CHECK(summary.memory_allocated_bytes_max == 60);
}

TEST_CASE("the total time of an attempt with a killed rank lasts until its ranks' last word") {
  AttemptReports figures = figures_of({{.step_times_ms = {10}}, {.step_times_ms = {10}}});
  figures.add(0, 3'000, RunInterrupted{});
  CHECK_FALSE(figures.summary(false).total_time_ms);
  CHECK(figures.summary(true).total_time_ms == 2'000);
}

TEST_CASE("durations are of each rank's own clock, whatever the others' say") {
  AttemptReports figures({.ranks = 2});
  constexpr int64_t kHourMs = 3'600'000;
  for (const int64_t rank : {0, 1}) {
    const int64_t clock = rank == 0 ? 2 * kHourMs : kHourMs;
    figures.add(rank, clock, RunStarted{});
    figures.add(rank, clock + 700, steps_of({.step_times_ms = {200}}).front());
    figures.add(rank, clock + 900 + rank, RunFinished{});
  }
  CHECK(figures.summary(true).total_time_ms == 901);
  CHECK(figures.summary(true).start_up_time_ms == 500);
}

TEST_CASE("a duration of a clock that was set back is absent, not negative") {
  AttemptReports figures({.ranks = 1});
  figures.add(0, 5'000, RunStarted{});
  figures.add(0, 4'000, steps_of({.step_times_ms = {200}}).front());
  CHECK_FALSE(figures.summary(true).start_up_time_ms);
  figures.add(0, 4'500, RunFinished{});
  CHECK(figures.summary(true).total_time_ms.value_or(0) >= 0);
}

TEST_CASE("what a rank that says it has finished did not do or not report is told") {
  using Catch::Matchers::Contains;
  const auto missing = [](int64_t planned, int64_t resumed, std::vector<int64_t> steps,
                          int64_t finished) {
    AttemptReports figures({.ranks = 1});
    RunStarted started;
    started.steps_planned = planned;
    started.resumed_from_step = resumed;
    figures.add(0, 0, started);
    for (const int64_t step : steps) {
      StepDone done;
      done.step = step;
      figures.add(0, 0, done);
    }
    figures.add(0, 0, RunFinished{.steps = finished});
    return figures.ranks()[0].reason;
  };
  CHECK(missing(3, 0, {1, 2, 3}, 3).empty());
  CHECK(missing(5, 3, {4, 5}, 5).empty());
  CHECK(missing(5, 5, {}, 5).empty());  // resumed after the last step
  CHECK_THAT(missing(7, 0, {1}, 7), Contains("reports of 6 of its 7 steps are missing"));
  CHECK_THAT(missing(3, 0, {1, 3}, 3), Contains("reports of 1 of its 3 steps are missing"));
  CHECK_THAT(missing(7, 0, {1, 2}, 2), Contains("finished after 2 of 7 steps"));
  CHECK_THAT(missing(7, 0, {}, 7), Contains("without a step"));
  CHECK_THAT(missing(0, 0, {}, 0), Contains("without a step"));
  CHECK_THAT(missing(50, 100, {}, 100), Contains("nothing was left to do"));
  AttemptReports without_start({.ranks = 1});
  without_start.add(0, 0, RunFinished{.steps = 2});
  CHECK_THAT(without_start.ranks()[0].reason, Contains("without a step"));
}

TEST_CASE("steps are those of the attempt, whatever their numbers") {
  const AttemptReports figures = figures_of({{.step_times_ms = {30, 10, 20}, .first_step = 101},
                                             {.step_times_ms = {1, 1, 1, 40}, .first_step = 99}});
  CHECK(figures.summary(false).steps == 3);
  CHECK(figures.summary(false).step_time_ms_median == 35);  // both ranks have steps 101 and 102
  CHECK(figures.rank_summary(0).steps == 3);
}

TEST_CASE("steps that were skipped or not finite are counted") {
  CHECK_FALSE(figures_of({{}}).summary(false).skipped_steps);
  CHECK(figures_of({{.step_times_ms = {10}}}).summary(false).skipped_steps == 0);
  CHECK(figures_of({{.step_times_ms = {10}}}).summary(false).non_finite_steps == 0);
  std::vector<StepDone> steps = steps_of({.step_times_ms = {10, 10, 10, 10}});
  for (const size_t step : {0, 1, 3}) steps[step].skipped = true;
  steps[3].non_finite = true;
  AttemptReports figures({.ranks = 2});
  add(figures, 0, steps);
  add(figures, 1, steps);
  CHECK(figures.summary(false).skipped_steps == 3);
  CHECK(figures.summary(false).non_finite_steps == 1);
}

TEST_CASE("the time of communication is of each step's slowest rank, and of all steps or absent") {
  std::vector<StepDone> first = steps_of({.step_times_ms = {10, 20, 30, 10}});
  std::vector<StepDone> second = steps_of({.step_times_ms = {11, 19, 29, 9}});
  const std::vector<double> times_ms{100, 1, 2, 4};
  for (size_t step = 0; step < first.size(); ++step) {
    first[step].communication_time_ms = times_ms[step];
    second[step].communication_time_ms = 50;
  }
  const auto median = [&] {
    AttemptReports figures({.ranks = 2, .warmup_steps_excluded = 1});
    add(figures, 0, first);
    add(figures, 1, second);
    return figures.summary(false).communication_time_ms_median;
  };
  CHECK(median() == 2);
  first[2].communication_time_ms.reset();
  CHECK_FALSE(median());
}

// Returns the figures of two ranks on these devices. Their steps of 20 ms take 3 and 5 x 10^12
// operations. Recomputation adds a quarter.
AttemptSummary summary_of_flops(const std::vector<std::string>& device_names, Dtype compute) {
  AttemptReports figures({.ranks = 2, .warmup_steps_excluded = 1, .compute = compute});
  for (size_t rank = 0; rank < 2; ++rank) {
    RunStarted started;
    started.device_name = device_names[rank];
    figures.add(static_cast<int64_t>(rank), 0, started);
    for (StepDone& done : steps_of({.step_times_ms = {90, 20, 20}})) {
      done.model_flops = rank == 0 ? 3e12 : 5e12;
      done.hardware_flops = *done.model_flops * 1.25;
      figures.add(static_cast<int64_t>(rank), 0, done);
    }
  }
  return figures.summary(false);
}

TEST_CASE("MFU and HFU are of the dense peaks of the ranks' GPUs, where all are known") {
  const std::string a100 = "NVIDIA A100-SXM4-80GB";
  const AttemptSummary same = summary_of_flops({a100, a100}, Dtype::kBf16);
  CHECK(same.model_tflops_per_second_per_rank == 200);
  CHECK(same.mfu_percent == Approx(100 * 200 / 312.0));
  CHECK(same.hfu_percent == Approx(100 * 250 / 312.0));
  const AttemptSummary mixed = summary_of_flops({a100, "NVIDIA H100 80GB HBM3"}, Dtype::kBf16);
  CHECK(mixed.mfu_percent == Approx(100 * 400 / (312 + 989.4)));
  CHECK(summary_of_flops({a100, a100}, Dtype::kFp32).mfu_percent == Approx(100 * 200 / 19.5));

  const std::string v100 = "Tesla V100-SXM2-16GB";  // has no bf16 products
  for (const std::string& other : {v100, std::string("AMD EPYC"), std::string()}) {
    const AttemptSummary unknown = summary_of_flops({a100, other}, Dtype::kBf16);
    CHECK(unknown.model_tflops_per_second_per_rank == 200);
    CHECK_FALSE(unknown.mfu_percent);
    CHECK_FALSE(unknown.hfu_percent);
  }
}

TEST_CASE("operations per second are absent where a step's are not known") {
  AttemptReports figures({.ranks = 1});
  std::vector<StepDone> steps = steps_of({.step_times_ms = {20, 20}});
  steps[0].model_flops = steps[0].hardware_flops = 1e12;
  add(figures, 0, {steps[0]});
  CHECK(figures.summary(false).model_tflops_per_second_per_rank == 50);
  figures.add(0, 0, steps[1]);
  CHECK_FALSE(figures.summary(false).model_tflops_per_second_per_rank);
}

TEST_CASE("validation figures are of the first, the last and the best evaluation") {
  AttemptReports figures = figures_of({{.step_times_ms = {10}}, {.step_times_ms = {10}}});
  CHECK_FALSE(figures.summary(false).validation_loss_best);
  CHECK_FALSE(figures.summary(false).token_accuracy_last);
  const auto evaluation = [&](std::optional<double> loss, std::optional<double> accuracy) {
    EvaluationDone done;
    done.loss = loss;
    done.token_accuracy = accuracy;
    figures.add(0, 0, done);
    figures.add(1, 0, done);
  };
  evaluation(std::nullopt, std::nullopt);  // no labels: no figures
  CHECK_FALSE(figures.summary(false).token_accuracy_last);
  evaluation(4, 0.1);
  evaluation(std::nullopt, 0);
  evaluation(2, 0.5);
  evaluation(3, 0.4);
  const AttemptSummary summary = figures.summary(false);
  CHECK(summary.validation_loss_first == 4);
  CHECK(summary.validation_loss_last == 3);
  CHECK(summary.validation_loss_best == 2);
  CHECK(summary.token_accuracy_last == 0.4);
}

TEST_CASE("the time of writing a checkpoint is the median") {
  AttemptReports figures = figures_of({{.step_times_ms = {10}}});
  CHECK_FALSE(figures.summary(false).checkpoint_write_time_ms_median);
  for (const double time_ms : {90, 10, 40}) {
    CheckpointDone checkpoint;
    checkpoint.write_time_ms = time_ms;
    figures.add(0, 0, checkpoint);
  }
  CHECK(figures.summary(false).checkpoint_write_time_ms_median == 40);
}

TEST_CASE("a loss that is not finite is absent") {
  std::vector<StepDone> steps = steps_of({.step_times_ms = {10, 10}});
  steps.back().loss.reset();
  AttemptReports figures({.ranks = 1});
  add(figures, 0, steps);
  CHECK(figures.summary(false).loss_first == 4.0);
  CHECK_FALSE(figures.summary(false).loss_last);
}

DeviceSample sample(const std::string& host, const std::string& device,
                    std::optional<double> utilization_percent,
                    std::optional<double> power_watts = {}) {
  DeviceSample sample;
  sample.host = host;
  sample.device = device;
  sample.utilization_percent = utilization_percent;
  sample.power_watts = power_watts;
  return sample;
}

RunStarted started(const std::string& host, const std::string& gpu) {
  RunStarted started;
  started.host = host;
  started.gpu = gpu;
  return started;
}

TEST_CASE("energy and utilization are of the GPUs that the ranks use, not of the others") {
  AttemptReports figures({.ranks = 2});
  figures.add(0, 0, started("a", "gpu:1"));
  // Node a's samples come before the rank on node b reports its GPU.
  figures.add(0, 10'000, sample("a", "gpu:0", 100, 1'000));
  figures.add(0, 10'000, sample("a", "gpu:1", std::nullopt, 100));
  figures.add(0, 10'000, sample("a", "cpu", 10, 70));
  figures.add(0, 12'000, sample("a", "gpu:1", 50, 200));
  figures.add(0, 15'000, sample("a", "gpu:1", 70));
  figures.add(0, 16'000, sample("a", "gpu:1", 60, 100));
  figures.add(1, 20'000, sample("b", "gpu:0", 20, 50));
  figures.add(1, 21'000, sample("b", "gpu:0", 30, 50));
  figures.add(1, 21'000, sample("b", "gpu:1", 100, 5'000));
  figures.add(1, 21'000, sample("b", "cpu", 30));
  figures.add(1, 0, started("b", "gpu:0"));
  const AttemptSummary summary = figures.summary(false);
  CHECK(summary.energy_joules == 2 * 150 + 4 * 150 + 1 * 50);
  CHECK(summary.gpu_utilization_percent_mean == (50.0 + 70 + 60 + 20 + 30) / 5);
  CHECK(summary.cpu_utilization_percent_mean == 20);
}

TEST_CASE("without GPUs or power figures there is no energy") {
  AttemptReports figures({.ranks = 1});
  figures.add(0, 0, started("a", ""));
  figures.add(0, 0, sample("a", "cpu", std::nullopt, 100));
  figures.add(0, 1'000, sample("a", "cpu", std::nullopt, 100));
  CHECK_FALSE(figures.summary(false).energy_joules);
  CHECK_FALSE(figures.summary(false).cpu_utilization_percent_mean);
  figures.add(0, 0, started("a", "gpu:0"));
  figures.add(0, 1'000, sample("a", "gpu:0", 5, 100));
  CHECK_FALSE(figures.summary(false).energy_joules);
  CHECK(figures.summary(false).gpu_utilization_percent_mean == 5);
}

// Returns the made-up use of two CPUs by a rank, over a second.
CpuUse use_of_cpus(const std::string& cpus, double cpu_time_ms, std::optional<double> busy_time_ms,
                   std::optional<double> wait_time_ms) {
  return {.cpus = cpus,
          .cpu_count = 2,
          .measured_time_ms = 1000,
          .cpu_time_ms = cpu_time_ms,
          .cpus_busy_time_ms = busy_time_ms,
          .run_queue_wait_time_ms = wait_time_ms};
}

AttemptSummary summary_of_uses(const std::vector<std::pair<std::string, CpuUse>>& uses) {
  AttemptReports figures({.ranks = std::ssize(uses)});
  for (size_t rank = 0; rank < uses.size(); ++rank) {
    figures.add(static_cast<int64_t>(rank), 0, started(uses[rank].first, ""));
    figures.add(static_cast<int64_t>(rank), 1, uses[rank].second);
  }
  return figures.summary(false);
}

TEST_CASE("CPU time of ranks that share their CPUs is not that of others") {
  const AttemptSummary quiet = summary_of_uses(
      {{"a", use_of_cpus("0-1", 900, 1900, 300)}, {"a", use_of_cpus("0-1", 950, 1900, 400)}});
  CHECK(quiet.cpu_time_others_percent.value() == Approx(2.5));
  CHECK(quiet.run_queue_wait_percent.value() == Approx(40));
  CHECK(quiet.cpu_cores_used_max.value() == Approx(0.95));
  const AttemptSummary busy = summary_of_uses(
      {{"a", use_of_cpus("0-1", 400, 2000, 800)}, {"a", use_of_cpus("0-1", 600, 2000, 100)}});
  CHECK(busy.cpu_time_others_percent.value() == Approx(50));
  CHECK(busy.run_queue_wait_percent.value() == Approx(80));
}

TEST_CASE("the memory of a node is that of its ranks, once all have finished") {
  AttemptReports figures({.ranks = 3});
  const std::array hosts{"a", "b", "b"};
  for (int64_t rank = 0; rank < 3; ++rank) {
    CHECK_FALSE(figures.summary(false).memory_node_bytes_max);
    figures.add(rank, 0, started(hosts[static_cast<size_t>(rank)], ""));
    figures.add(rank, 1, RunFinished{.steps = 1, .memory_host_bytes_max = 100 + rank});
  }
  CHECK(figures.summary(false).memory_node_bytes_max == 203);
}

TEST_CASE("ranks on CPUs or hosts of their own have others of their own") {
  CHECK(summary_of_uses(
            {{"a", use_of_cpus("0-1", 1900, 1900, 0)}, {"a", use_of_cpus("2-3", 1000, 1400, 0)}})
            .cpu_time_others_percent.value() == Approx(20));
  CHECK(summary_of_uses(
            {{"a", use_of_cpus("0-1", 1000, 1400, 0)}, {"b", use_of_cpus("0-1", 1900, 1900, 0)}})
            .cpu_time_others_percent.value() == Approx(20));
  // Counted in ticks, the CPUs may be busy for less time than their processes.
  CHECK(summary_of_uses({{"a", use_of_cpus("0-1", 2000, 1990, 0)}}).cpu_time_others_percent == 0.0);
}

TEST_CASE("use of CPUs that the kernel does not tell, or of no time, is no figure") {
  const AttemptSummary without_wait =
      summary_of_uses({{"a", use_of_cpus("0-1", 500, 1500, std::nullopt)}});
  CHECK(without_wait.cpu_time_others_percent.value() == Approx(50));
  CHECK_FALSE(without_wait.run_queue_wait_percent);
  const AttemptSummary without_busy =
      summary_of_uses({{"a", use_of_cpus("0-1", 500, std::nullopt, 100)}});
  CHECK_FALSE(without_busy.cpu_time_others_percent);
  CHECK(without_busy.run_queue_wait_percent.value() == Approx(10));
  // The second rank does not report its use.
  AttemptReports figures({.ranks = 2});
  figures.add(0, 1, use_of_cpus("0-1", 500, 1500, 100));
  CHECK_FALSE(figures.summary(false).cpu_time_others_percent);
  CHECK_FALSE(figures.summary(false).run_queue_wait_percent);
  // A time this short has too few ticks of 10 ms.
  CpuUse brief = use_of_cpus("0-1", 500, 1500, 100);
  brief.measured_time_ms = 499;
  CHECK_FALSE(summary_of_uses({{"a", brief}}).cpu_time_others_percent);
  brief.cpu_count = 0;
  brief.measured_time_ms = 500;
  CHECK_FALSE(summary_of_uses({{"a", brief}}).cpu_time_others_percent);
}

// Returns an account of `step` with these parts.
StepAccount account(int64_t step, double products_ms, double gather_ms, double slower_ranks_ms) {
  StepAccount made{.step = step, .step_time_ms = products_ms + gather_ms + slower_ranks_ms};
  made.parts[TimePart::kProductsForward] = products_ms;
  made.parts[TimePart::kAllGatherForward] = gather_ms / 4;
  made.parts[TimePart::kAllGatherBackward] = gather_ms * 3 / 4;
  made.parts[TimePart::kSlowerRanks] = slower_ranks_ms;
  made.hidden_communication_ms = 7;
  return made;
}

double part(const AttemptSummary& summary, TimePart part) {
  return summary.time_by_part[static_cast<size_t>(part)].value();
}

TEST_CASE("the account is of the step of median time and of its slowest rank") {
  AttemptReports figures = figures_of({{.step_times_ms = {130, 110, 500}},
                                       {.step_times_ms = {130, 110, 500}},
                                       {.step_times_ms = {130, 110, 500}}});
  for (int64_t rank = 0; rank < 3; ++rank) {
    figures.add(rank, 9'000, account(1, rank == 1 ? 120 : 100, 10, rank == 1 ? 0 : 20));
    figures.add(rank, 9'000, account(2, 90, 8, 12));
    figures.add(rank, 9'000, account(3, 400, 80, 20));
  }
  const AttemptSummary summary = figures.summary(false);
  CHECK(summary.account_rank == 1);
  CHECK(part(summary, TimePart::kProductsForward) == 120);
  CHECK(part(summary, TimePart::kSlowerRanks) == 0);
  CHECK(summary.exposed_all_gather_ms == 10);
  CHECK(summary.hidden_communication_ms == 7);
  CHECK(summary.slowest_rank_extra_ms == 20);
}

TEST_CASE("a step without every rank's account, or with a suspended rank, has none") {
  AttemptReports figures =
      figures_of({{.step_times_ms = {130, 110}}, {.step_times_ms = {130, 110}}});
  figures.add(0, 9'000, account(1, 100, 10, 20));
  CHECK_FALSE(figures.summary(false).account_rank);
  figures.add(1, 9'000, account(1, 110, 10, 10));
  CHECK(figures.summary(false).account_rank == 1);

  std::vector<StepDone> steps = steps_of({.step_times_ms = {130}});
  steps.front().suspended = true;
  AttemptReports suspended({.ranks = 1});
  add(suspended, 0, steps);
  suspended.add(0, 9'000, account(1, 100, 10, 20));
  CHECK_FALSE(suspended.summary(false).account_rank);
}

TEST_CASE("a rank's state is what it reported last") {
  AttemptReports reports({.ranks = 3});
  reports.add(0, Event{.time_unix_ms = 4'000, .elapsed_ms = 400, .body = RunStarted{}});
  StepDone done;
  done.step = 4;
  reports.add(0, Event{.time_unix_ms = 5'000, .body = done});
  reports.add(1, Event{.time_unix_ms = 77, .body = RunFailed{.exit_code = 3, .reason = "full"}});
  const std::vector<RankState>& ranks = reports.ranks();
  REQUIRE(ranks.size() == 3);
  CHECK(ranks[0].kind == RankEndKind::kNone);
  CHECK(ranks[0].started_unix_ms == 3'600);
  CHECK(ranks[0].last_step == 4);
  CHECK(ranks[0].last_event_unix_ms == 5'000);
  CHECK(ranks[1].kind == RankEndKind::kFailed);
  CHECK(ranks[1].exit_code == 3);
  CHECK(ranks[1].reason == "full");
  CHECK_FALSE(ranks[2].last_event_unix_ms);
}

}  // namespace
}  // namespace fsdp
