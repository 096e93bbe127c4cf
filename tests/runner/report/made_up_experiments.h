#pragma once

#include <cmath>
#include <random>

#include "contract/spec/run_spec_json.h"
#include "tests/runner/report/made_up_results.h"

// Random experiments with a known truth.
namespace fsdp {

// The truth about a run.
struct TrueRun {
  std::vector<std::optional<double>> losses{};  // of each step from 1
  int64_t first_known_step = 1;                 // the first step in the database
};

// The truth about a row.
struct TrueRow {
  std::string name;
  double speed = 0;  // tokens per second, without noise
  double fill = 1;   // the part of the tokens that is not padding
  int64_t ranks = 1;
};

struct MadeUpExperiment {
  std::vector<TrueRow> truth{};
  ComparisonRows runs{};             // of all rows, row by row
  std::vector<size_t> row_of_run{};  // each run's index into `truth`
  std::vector<TrueRun> true_runs{};  // in the order of `runs`
};

// Makes experiments. A seed gives the same experiment with every standard library.
class ExperimentMaker {
 public:
  explicit ExperimentMaker(uint64_t seed) : random_(seed) {}

  MadeUpExperiment make() {
    MadeUpExperiment made;
    device_ = chance(0.5) ? kCuda : kCpu;
    run_noise_ = (device_ == kCuda ? 0.018 : 0.07) * (0.2 + 0.8 * uniform());
    noise_shape_ = pick({0, 1, 2, 3});
    drift_ = normal();
    steps_ = pick({1, 3, 12, 12, 12, 12, 12, 12});
    differs_in_fill_ = chance(0.2);
    losses_are_read_ = chance(0.7);
    const size_t count = 1 + random_() % 8;
    const int64_t repeats = pick({1, 1, 3, 5, 5});
    for (size_t i = 0; i < count; ++i) add_row(made, i, repeats);
    if (chance(0.2)) add_doubled_rows(made);
    return made;
  }

  // Makes rows of equal speed, with the most noise that was seen in real runs.
  ComparisonRows equal_rows(size_t count, int64_t repeats, int noise_shape) {
    const DeviceKind device = chance(0.5) ? kCuda : kCpu;
    const double run_noise = device == kCuda ? 0.018 : 0.07;
    noise_shape_ = noise_shape;
    drift_ = normal();
    ComparisonRows rows;
    for (size_t row = 0; row < count; ++row) {
      std::vector<double> speeds;
      for (int64_t i = 0; i < repeats; ++i) speeds.push_back(1000 * std::exp(run_noise * noise()));
      add_repeats(rows, "row" + std::to_string(row), speeds, device);
    }
    return rows;
  }

 private:
  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  bool chance(double part) { return uniform() < part; }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

  // With variance 1: normal, heavy-tailed, skewed, or of a host that drifts.
  double noise() {
    constexpr double kStays = 0.9;
    switch (noise_shape_) {
      case 0:
        return normal();
      case 1: {
        double squares = 0;
        for (int i = 0; i < 3; ++i) squares += std::pow(normal(), 2);
        return normal() / std::sqrt(squares);  // Student's t, 3 degrees of freedom
      }
      case 2:
        return 1 + std::log(1 - uniform());
      default:
        drift_ = kStays * drift_ + std::sqrt(1 - kStays * kStays) * normal();
        return (drift_ + normal()) / std::numbers::sqrt2;
    }
  }

  json spec_of(const TrueRow& row, int64_t size_per_rank) {
    json spec{{"strategy", {{"kind", "fsdp"}, {"ranks", row.ranks}, {"offload", "none"}}},
              {"batch", {{"size_per_rank", size_per_rank}}},
              {"model", {{"config", {{"hidden_size", chance(0.02) ? 192 : 96}}}}},
              {"train", {{"steps", chance(0.05) ? steps_ + 1 : steps_}, {"seed", 1}}},
              {"precision", {{"kind", "fp32"}}}};
    if (chance(0.3)) spec["strategy"]["offload"] = "optimizer";
    if (chance(0.1)) spec["train"]["seed"] = 2;
    if (chance(0.1)) spec["optimizer"]["learning_rate"] = 0.5;
    if (chance(0.1)) spec["precision"]["kind"] = "bf16_mixed";
    return spec;
  }

  void add_row(MadeUpExperiment& made, size_t place, int64_t repeats) {
    static const std::array<const char*, 8> kNames{
        "one GPU", "DDP", "FSDP, batch 8", "offload", "plain", "wide=4, x", "zeta", "eta 2"};
    TrueRow row{.name = kNames.at(place), .ranks = pick({1, 2, 4, 4})};
    row.speed = 1000 * pick({1.0, 1.0, 1.0, 1.04, 1.3, 2.0, 4.0});
    row.fill = differs_in_fill_ ? pick({1.0, 0.5, 0.3}) : 0.9;
    const int64_t size_per_rank = pick({2, 4, 4, 4, 8});
    const json spec = spec_of(row, size_per_rank);
    const double no_room = chance(0.15) ? pick({0.6, 1.0}) : 0.0;
    made.truth.push_back(row);
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
      ComparisonRow& run = add_run(made, spec, size_per_rank);
      run.series = row.name;
      run.point = repeats == 1 ? row.name : row.name + " #" + std::to_string(repeat + 1);
      if (chance(no_room)) run.status = RunStatus::kOutOfMemory;
      if (chance(0.04)) run.status = pick({RunStatus::kFailed, RunStatus::kPlanned});
    }
  }

  // Adds values up to `most`, which fit, and larger values, which do not.
  void add_doubled_rows(MadeUpExperiment& made) {
    const int64_t most = pick({0, 1, 2, 4});
    const int64_t last = pick({4, 8});
    for (int64_t value = 1; value <= last; value *= 2) {
      TrueRow row{.name = "FSDP size_per_rank=" + std::to_string(value), .ranks = 4};
      row.speed = 1000 * std::sqrt(static_cast<double>(value));
      row.fill = differs_in_fill_ ? 1 : 0.9;
      made.truth.push_back(row);
      ComparisonRow& run = add_run(made, spec_of(row, value), value);
      run.point = run.series = row.name;
      run.family = "family";
      run.family_key = "batch.size_per_rank";
      run.family_value = value;
      run.position = 100;
      if (value > most) run.status = RunStatus::kOutOfMemory;
      if (value > most && most > 0 && chance(0.3)) run.status = RunStatus::kFailed;
    }
  }

  ComparisonRow& add_run(MadeUpExperiment& made, const json& spec, int64_t size_per_rank) {
    const TrueRow& row = made.truth.back();
    const auto number = static_cast<int64_t>(made.runs.size()) + 1;
    const double speed = row.speed * std::exp(run_noise_ * noise());
    ComparisonRow run =
        finished_row(number, row.name, StrategyKind::kFsdp, row.ranks, 4'096'000 / speed);
    run.device_name = chance(0.005) ? "another" : "a device";
    run.tokens_per_second = speed;
    run.unpadded_tokens_per_second = speed * row.fill;
    run.tokens_per_second_per_rank = speed / static_cast<double>(row.ranks);
    run.step_time_ms_p25 = *run.step_time_ms_median * 0.99;
    run.step_time_ms_p75 = *run.step_time_ms_median * 1.01;
    run.memory_allocated_bytes_max = (1 + static_cast<int64_t>(random_() % 4)) << 30;
    run.spec = run_spec_from_json(spec.dump(), "");
    run.spec.device = device_;
    run.spec.batch.gradient_accumulation_steps = 1;
    run.spec.batch.total = size_per_rank * row.ranks;
    run.data_digest = chance(0.03) ? "other data" : "data";
    give_losses(made, run, spec);
    spoil(run);
    made.runs.push_back(run);
    made.row_of_run.push_back(made.truth.size() - 1);
    return made.runs.back();
  }

  void give_losses(MadeUpExperiment& made, ComparisonRow& run, const json& spec) {
    json deciding = spec;
    deciding.erase("strategy");
    deciding["batch"] = *run.spec.batch.total;
    run.loss_digest = deciding.dump() + run.data_digest;
    const int64_t steps = spec["train"]["steps"];
    const double order_of_sums = pick({0.0, 1e-7, 1.49e-5, 3e-5}) * uniform();
    const double wrong = chance(0.03) ? 0.1 : 0;  // the run computes something else
    const int64_t last_finite = chance(0.05) ? steps - 1 : steps;
    TrueRun truth;
    for (int64_t step = 1; step <= steps; ++step) {
      const double loss = (6 + 1.0 / static_cast<double>(*run.spec.batch.total)) /
                          static_cast<double>(step) * (1 + order_of_sums + wrong);
      truth.losses.push_back(step <= last_finite ? std::optional(loss) : std::nullopt);
    }
    run.steps = run.steps_planned = steps;
    if (steps > 4 && chance(0.08)) {
      run.resumed_from_step = pick({2, 9});
      run.steps = steps - *run.resumed_from_step;
      if (chance(0.5)) truth.first_known_step = *run.resumed_from_step + 1;
    }
    for (int64_t step = truth.first_known_step; losses_are_read_ && step <= steps; ++step) {
      run.losses.push_back({.step = step, .loss = truth.losses[static_cast<size_t>(step - 1)]});
    }
    run.loss_first = truth.losses[static_cast<size_t>(truth.first_known_step - 1)];
    run.loss_last = truth.losses.back();
    made.true_runs.push_back(truth);
  }

  // Damages a row as merged rows may be damaged.
  void spoil(ComparisonRow& run) {
    if (chance(0.02)) run.loss_digest.clear();
    if (chance(0.02)) run.loss_digest += "by an older version";
    if (chance(0.01)) run.tokens_per_second = std::numeric_limits<double>::infinity();
    if (chance(0.02)) run.source = "alice";
  }

  std::mt19937_64 random_;
  DeviceKind device_ = kCuda;
  double run_noise_ = 0;
  int noise_shape_ = 0;
  double drift_ = 0;
  int64_t steps_ = 1;
  bool differs_in_fill_ = false;
  bool losses_are_read_ = true;
};

}  // namespace fsdp
