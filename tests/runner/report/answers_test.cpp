#include "runner/answers/answers.h"

#include "runner/answers/why.h"
#include "tests/runner/report/made_up_results.h"

// The words of answers: an example of each sentence.
namespace fsdp {
namespace {

// A question about results, and the answer that is true of them.
struct Case {
  const char* question;
  ComparisonRows rows;
  const char* answer;
};

void check(const std::vector<Case>& cases) {
  for (const auto& [question, rows, answer] : cases) {
    INFO(answer);
    CHECK(answer_of(rows, question) == answer);
  }
}

const ComparisonRows kOne = runs_at({{"A", 1000}});
const ComparisonRows kTwo = runs_at({{"A", 1000}, {"B", 2000}});
const ComparisonRows kThree = runs_at({{"A", 1000}, {"B", 2000}, {"C", 2000}});

TEST_CASE("answers about speed") {
  check({
      {"Speed", kOne, "1000 tokens/s, 4096 ms a step"},
      {"Speed", kTwo, "B is fastest, 2000 tokens/s; next is A, 1000 tokens/s"},
      {"Speed", runs_at({{"A", 1000}, {"B", 2000}, {"C", 1010}}),
       "B is fastest, 2000 tokens/s; next are C and A, 1000 to 1010 tokens/s"},
      {"Speed", runs_at({{"A", 1000}, {"B", 2000}, {"C", 2020}}),
       "C and B are fastest, equal within noise: 2000 to 2020 tokens/s"},
      {"Speed", runs_at({{"A", 1000}, {"B", 1000}}), "no difference exceeds the noise"},
      {"Speed", with(kTwo, [](auto& rows) { rows[1].steps = 5; }), "not compared: B (3 steps)"},
      {"Speed", disturbed(with(kThree, [](auto& rows) { rows[1].steps = 2; }), 2),
       "not compared: C (a busy host), B (2 steps of warm-up)"},
      {"Speed", disturbed(disturbed(kTwo, 0), 1), "not compared: all 2 (a busy host)"},
      {"Speed", disturbed(kThree, 2),
       "B is fastest, 2000 tokens/s; next is A, 1000 tokens/s; not compared: C (a busy host)"},
      {"Speed",
       with(repeated({{"A", {100, 100}}, {"B", {900, 1}}}),
            [](auto& rows) { rows[3].status = RunStatus::kOutOfMemory; }),
       "100 tokens/s, 40960 ms a step; not compared: B (out of memory at times)"},
      {"Speed", with(kTwo, [](auto& rows) { rows[1].device_name = "another"; }),
       "not compared, because the devices differ or are not known"},
      {"Speed", with(kTwo, [](auto& rows) { rows[1].spec.model.config.hidden_size = 8; }),
       "not compared, because the models differ"},
      {"Speed",
       with(kTwo,
            [](auto& rows) {
              rows[0].unpadded_tokens_per_second = 990;
              rows[1].unpadded_tokens_per_second = 400;
            }),
       "not compared, because some rows are faster only if tokens that fill sequences up count"},
      {"Speed", ended(kOne, 0, RunStatus::kOutOfMemory), ""},
      {"Speed", runs_at({{"A and B", 1000}, {"one process", 1000}, {"C", 9}}),
       "'A and B' and 'one process' are fastest, equal within noise: 1000 tokens/s"},
  });
}

TEST_CASE("answers about what fits") {
  const auto unmeasured = [](ComparisonRow& row) { row.memory_allocated_bytes_max.reset(); };
  check({
      {"Fits", kTwo, "all 2"},
      {"Fits", runs_at({{"A", 1000}, {"B", 2000}}, kCpu), ""},
      {"Fits",
       with(ended(kThree, 2, RunStatus::kOutOfMemory),
            [](auto& rows) { rows[2].spec.memory_limit_gib = 1.5; }),
       "2 of 3; C does not fit in 1.50 GiB"},
      {"Fits",
       with(ended(ended(kTwo, 0, RunStatus::kOutOfMemory), 1, RunStatus::kOutOfMemory),
            [](auto& rows) {
              rows[0].spec.memory_limit_gib = 1;
              rows[1].spec.memory_limit_gib = 2;
            }),
       "0 of 2; A and B do not fit"},
      {"Fits", ended(ended(kThree, 1, RunStatus::kFailed), 2, RunStatus::kRunning),
       "1 of 3; failed: B; running: C"},
      {"Fits", ended(kTwo, 1, RunStatus::kTimeLimit), "1 of 2; time_limit: B"},
      {"Fits",
       with(repeated({{"A", {100, 100}}, {"B", {900, 1, 1}}}),
            [](auto& rows) { rows[3].status = rows[4].status = RunStatus::kOutOfMemory; }),
       "1 of 2; B ran out of memory in 2 of 3 repeats"},
      {"Fits",
       doubled({{1, RunStatus::kFinished},
                {2, RunStatus::kFinished},
                {4, RunStatus::kOutOfMemory},
                {8, RunStatus::kOutOfMemory},
                {16, RunStatus::kFailed}}),
       "largest batch.size_per_rank that fits: 2 for FSDP (4 does not)"},
      {"Fits", doubled({{1, RunStatus::kFinished}, {2, RunStatus::kFinished}}),
       "largest batch.size_per_rank that fits: 2 for FSDP (no larger value was tried)"},
      {"Fits", doubled({{1, RunStatus::kOutOfMemory}}),
       "largest batch.size_per_rank that fits: none for FSDP (1 does not)"},
      {"Fits", doubled({{1, RunStatus::kFinished}, {2, RunStatus::kFailed}}),
       "largest batch.size_per_rank that fits: 1 for FSDP so far"},
      {"Memory", with_memory(kTwo, {2048, 1024}), "B takes least, 1.00 GiB a rank"},
      {"Memory", with_memory(kThree, {1040, 1024, 1030}),
       "B and C take least, 1.00-1.01 GiB a rank"},
      {"Memory", with_memory(kTwo, {1024, 1030}), "each row takes 1.00-1.01 GiB a rank"},
      {"Memory", with_memory(kOne, {1024}), "1.00 GiB a rank"},
      {"Memory", with(kOne, [&](auto& rows) { unmeasured(rows[0]); }), ""},
  });
}

// A row with these uses of memory, in MiB.
ComparisonRow with_uses(const char* point, const std::map<MemoryUse, int64_t>& mebibytes) {
  ComparisonRow row = run_at(point, 1000);
  row.memory_by_use.emplace();
  row.memory_allocated_bytes_max = 0;
  for (const auto& [use, count] : mebibytes) {
    (*row.memory_by_use)[use] = count << 20;
    *row.memory_allocated_bytes_max += count << 20;
  }
  return row;
}

TEST_CASE("answers about why rows differ in memory add up") {
  using enum MemoryUse;
  ComparisonRow single = with_uses("1 GPU", {{kParameters, 1024},
                                             {kGradients, 100},
                                             {kOptimizerState, 2048},
                                             {kMlp, 500},
                                             {kAttention, 524},
                                             {kBatch, 1}});
  single.spec.strategy.ranks = 1;
  ComparisonRow fsdp = with_uses("FSDP", {{kParameters, 260},  // 1/4 and some padding
                                          {kWhole, 120},
                                          {kGradients, 110},
                                          {kOptimizerState, 512},
                                          {kMlp, 500},
                                          {kAttention, 524}});
  ComparisonRow wide = with_uses("wide", {{kParameters, 260},
                                          {kWhole, 120},
                                          {kGradients, 110},
                                          {kOptimizerState, 512},
                                          {kMlp, 1000},
                                          {kAttention, 1048}});
  ComparisonRow offload =
      with_uses("offload", {{kParameters, 256}, {kMlp, 500}, {kAttention, 524}});
  offload.spec.strategy.offload = Offload::kOptimizer;
  const auto answers = [&](const ComparisonRows& rows) { return answer_of(rows, "Why"); };
  CHECK(answers({single, fsdp, wide, offload}) ==
        "FSDP against 1 GPU: -2.12 GiB = -1.50 optimizer state, -0.75 parameters, +0.12 gathered "
        "units, +0.01 other parts"
        "\nwide against 1 GPU: -1.12 GiB = -1.50 optimizer state, -0.75 parameters, +0.51 "
        "activations of attention, +0.49 activations of MLPs, +0.12 gathered units, +0.01 other "
        "parts"
        "\noffload against 1 GPU: -2.85 GiB = -2.00 optimizer state, -0.75 parameters, -0.10 other "
        "parts");
  ComparisonRow qlora = fsdp;
  qlora.spec.strategy.kind = StrategyKind::kDdp;
  CHECK_THAT(answers({single, qlora}), Catch::Contains("+0.12 converted parameters"));
  ComparisonRow unknown = fsdp;
  unknown.memory_by_use.reset();
  CHECK(answers({single, unknown}) == "");
  CHECK(answer_of({single, unknown}, "Memory") == "FSDP takes least, 1.98 GiB a rank");
  ComparisonRow later = fsdp;
  *later.memory_allocated_bytes_max += 1;
  ComparisonRow repeat = fsdp;
  repeat.point = "FSDP #2";
  CHECK_THAT(answers({single, later, repeat}), Catch::Contains("-1.50 optimizer state"));
  ComparisonRow alike = single;
  alike.point = alike.series = "DDP";
  CHECK(answers({single, alike}) == "");
}

TEST_CASE("a run's products are compared with the peak of its GPU") {
  ComparisonRow row = runs_at({{"A", 1000}})[0];
  row.device_name = "Fake GPU";
  row.account_rank = 0;
  row.time_by_part[static_cast<size_t>(TimePart::kProductsForward)] = 30;
  row.time_by_part[static_cast<size_t>(TimePart::kAttentionBackward)] = 60;
  row.time_by_part[static_cast<size_t>(TimePart::kOptimizer)] = 10;
  CHECK(peak_text(row) == "");
  row.mfu_percent = 40;
  row.hfu_percent = 45;
  CHECK(peak_text(row) ==
        "Products and attention take 90.0 ms. At the peak of Fake GPU they would take 45.0 ms (MFU "
        "40.0 %, HFU 45.0 %).");
}

TEST_CASE("in a job, work that one rank alone has more of is named with its host") {
  TimeByPart quick, slow;
  quick[TimePart::kProductsForward] = 10;
  slow[TimePart::kProductsForward] = 60;
  const auto name_on = [&](const std::string& host) {
    const auto change = time_change({.step_time_ms = 150,
                                     .time = slow,
                                     .slowest_rank = 3,
                                     .slowest_host = host,
                                     .slowest_rank_extra_ms = 45},
                                    {.step_time_ms = 100, .time = quick});
    return change->parts.front().first;
  };
  CHECK(name_on("") == "products (on rank 3 alone)");
  CHECK(name_on("node7") == "products (on rank 3 alone, on node7)");
}

TEST_CASE("times of steps with other numbers of tokens are compared for as many tokens") {
  TimeByPart small, large;
  small[TimePart::kProductsForward] = 100;
  large[TimePart::kProductsForward] = 150;
  large[TimePart::kOptimizer] = 10;
  const Explained one{.tokens_per_step = 512, .step_time_ms = 100, .time = small};
  const Explained four{.tokens_per_step = 1024, .step_time_ms = 160, .time = large};
  CHECK(time_change_text(*time_change(four, one)) ==
        "-40 ms for 1024 tokens = -50 products, +10 optimizer");
}

TEST_CASE("a run is compared with a plan, which knows whole modules, by whole modules") {
  TimeByPart measured, planned;
  measured[TimePart::kProductsForward] = 60;
  measured[TimePart::kAttentionBackward] = 30;
  measured[TimePart::kKernelsBackward] = 10;
  measured[TimePart::kAllReduce] = 25;
  planned[TimePart::kKernelsForward] = 90;
  planned[TimePart::kAllReduce] = 5;
  CHECK(time_change_text(*time_change({.step_time_ms = 125, .time = measured},
                                      {.step_time_ms = 95, .time = planned})) ==
        "+30 ms a step = +20 all-reduces that nothing hides, +10 computation");
}

// Returns rows whose losses must be equal.
ComparisonRows equal(ComparisonRows rows, std::vector<double> of_first,
                     std::vector<double> of_rest) {
  std::vector<std::vector<double>> losses(rows.size(), of_rest);
  losses.front() = std::move(of_first);
  return with_losses(std::move(rows), losses);
}

TEST_CASE("answers about losses") {
  const auto none_finite = [](auto& rows) {
    for (ComparisonRow& row : rows) {
      for (StepLoss& step : row.losses) step.loss.reset();
    }
  };
  const auto resumed = [](auto& rows) {
    rows[1].resumed_from_step = 1;
    rows[1].losses.erase(rows[1].losses.begin());
  };
  const auto without_steps = [](auto& rows) {
    for (ComparisonRow& row : rows) row.losses.clear();
  };
  const auto norms = [](std::vector<double> first, std::vector<double> second) {
    return [=](auto& rows) {
      for (size_t i = 0; i < first.size(); ++i) rows[0].losses[i].gradient_norm = first[i];
      for (size_t i = 0; i < second.size(); ++i) rows[1].losses[i].gradient_norm = second[i];
    };
  };
  check({
      {"Loss", kOne, "6.9315 -> 2.5000"},
      {"Loss", with(kOne, [](auto& rows) { rows[0].loss_last.reset(); }), "6.9315 -> not finite"},
      {"Loss", ended(kOne, 0, RunStatus::kOutOfMemory), ""},
      {"Loss", equal(kTwo, {3, 2, 1}, {3, 2, 1}), "A and B are equal at all 3 steps"},
      {"Loss", equal(kThree, {3, 2, 1}, {3, 2, 1}), "all 3 are equal at all 3 steps"},
      {"Loss", equal(kTwo, {3, 2}, {3, 2.00000298}), "A and B agree to 2e-6 at all 2 steps"},
      {"Loss", equal(kTwo, {3, 2, 1}, {3, 2.5, 4}),
       "A and B do not agree: A 2, B 2.5 at step 2, 2e-1 apart (allowed: 4e-6)"},
      {"Loss", equal(kTwo, {3, 2, 1}, {3, 2, 1.00001}),
       "A and B do not agree: A 1, B 1.00001 at step 3, 1e-5 apart (allowed: 6e-6)"},
      {"Loss", equal(kTwo, {3, 2, 1}, {3, 2.0000002, 1.000009}),
       "A and B agree to 9e-6 at all 3 steps"},
      {"Loss", equal(kTwo, {3, 2, 1, 1}, {3.000005, 2.0003, 1.01, 1.5}),
       "A and B agree but for rounding, which grew to 4e-1, at all 4 steps"},
      {"Loss", equal(kTwo, {3, 2, 1}, {3, 2.0000001, 1.000009}),
       "A and B do not agree: A 1, B 1.00001 at step 3, 9e-6 apart (allowed: 6e-6)"},
      {"Loss", with(equal(kTwo, {3, 2, 1}, {3, 2, 1}), norms({5, 4, 4}, {5, 4.1, 3})),
       "A and B do not agree in their gradient norms: A 4, B 4.1 at step 2, 3e-2 apart "
       "(allowed: 2e-4)"},
      {"Loss", with(equal(kTwo, {3, 2, 1}, {3, 2, 1}), norms({5, 4, 4}, {5, 4.0004, 4})),
       "A and B are equal at all 3 steps"},
      {"Loss", with(equal(kTwo, {3, 2, 1}, {3, 2, 1}), norms({5, 4, 4}, {})),
       "A and B are equal at all 3 steps"},
      {"Loss",
       with(equal(kTwo, {3, 2, 1}, {3, 2.001, 1}),
            [](auto& rows) {
              rows[0].spec.precision.kind = rows[1].spec.precision.kind = PrecisionKind::kBf16True;
            }),
       "A and B agree to 5e-4 at all 3 steps"},
      {"Loss", equal(kThree, {3, 2.5, 4}, {3, 2, 1}),
       "A and B do not agree: B 2, A 2.5 at step 2, 2e-1 apart (allowed: 4e-6); "
       "B and C are equal at all 3 steps"},
      {"Loss", with_losses(kThree, {{3, 2}, {3, 2.5}, {3, 2}}),
       "A and B do not agree: A 2, B 2.5 at step 2, 2e-1 apart (allowed: 4e-6); "
       "A and C are equal at all 2 steps"},
      // A has only the last step, at which all are equal.
      {"Loss",
       with(with_losses(kThree, {{3, 2}, {3, 2}, {4, 2}}),
            [](auto& rows) {
              rows[0].resumed_from_step = 1;
              rows[0].losses.erase(rows[0].losses.begin());
            }),
       "B and C do not agree: B 3, C 4 at step 1, 3e-1 apart (allowed: 2e-6); "
       "B and A are equal at the only step that all have"},
      {"Loss", with_losses(kThree, {{3, 2}, {3, 2.5}, {3, 4}}),
       "A and B do not agree: A 2, B 2.5 at step 2, 2e-1 apart (allowed: 4e-6); "
       "A and C do not agree: A 2, C 4 at step 2, 5e-1 apart (allowed: 4e-6)"},
      {"Loss",
       with(equal(kTwo, {3, 2}, {3, 2}), [](auto& rows) { rows[1].losses[1].loss.reset(); }),
       "A and B do not agree: B not finite, A 2 at step 2"},
      {"Loss",
       with(equal(kTwo, {3, 2}, {3, 2}),
            [](auto& rows) { rows[0].losses[1].loss = rows[1].losses[1].loss = std::nullopt; }),
       "A and B are equal at all 2 steps, of which 1 is not finite"},
      {"Loss", with(equal(kTwo, {3, 2}, {3, 2}), none_finite),
       "A and B have no finite loss at all 2 steps"},
      {"Loss", with(equal(kThree, {3, 2, 1}, {3, 2, 1}), resumed),
       "all 3 are equal at the 2 steps that all have"},
      {"Loss",
       with(equal(kTwo, {3, 2, 1}, {3, 2, 1}),
            [](auto& rows) {
              for (ComparisonRow& row : rows) {
                row.resumed_from_step = 1;
                row.losses.erase(row.losses.begin());
              }
            }),
       "A and B are equal at the 2 steps that all have"},
      {"Loss", with(equal(kTwo, {3, 2}, {3, 2}), resumed),
       "A and B are equal at the only step that all have"},
      {"Loss",
       with(equal(kTwo, {3, 2}, {3, 2}),
            [&](auto& rows) {
              resumed(rows);
              rows[0].losses.pop_back();
            }),
       "A and B have no step in common"},
      {"Loss", with(equal(kTwo, {3}, {3}), without_steps),
       "A and B are equal at the first and the last step"},
      {"Loss",
       with(equal(kTwo, {3}, {3}),
            [&](auto& rows) {
              without_steps(rows);
              rows[1].resumed_from_step = 1;
              rows[0].steps_planned = rows[1].steps_planned = 100;
            }),
       "A and B are equal at the last step"},
      {"Loss", equal(repeated({{"A", {100, 100}}}), {3, 2}, {3, 2}),
       "the repeats of A are equal at all 2 steps"},
      {"Loss",
       with(equal(repeated({{"A", {100, 100}}, {"B", {100, 100}}}), {3}, {3}),
            [](auto& rows) { rows[1].loss_digest = rows[3].loss_digest = "second seed"; }),
       "A #0 and B #0 are equal at the only step; A #1 and B #1 are equal at the only step"},
      {"Loss", with(kTwo, [](auto& rows) { rows[1].spec.batch.total = 32; }),
       "cannot be compared with A: B has another batch"},
      {"Loss",
       with(kThree, [](auto& rows) { rows[1].spec.batch.total = rows[2].spec.batch.total = 32; }),
       "cannot be compared with A: B and C have another batch"},
  });
}

TEST_CASE(
    "many groups of rows with equal losses share a sentence; those that part have their own") {
  ComparisonRows rows;
  for (int i = 0; i < 8; ++i) {
    rows.push_back(run_at("row" + std::to_string(i), 1000));
    rows.back().loss_digest = std::to_string(i / 2);
  }
  CHECK(answer_of(rows, "Loss") ==
        "8 runs form 4 groups; within each group losses are equal at every step that was compared");
  rows[1].loss_last = 2.75;
  CHECK(answer_of(rows, "Loss") ==
        "row0 and row1 do not agree: row0 2.5, row1 2.75 at step 100, 1e-1 apart (allowed: "
        "2e-4); 6 runs form 3 groups; within each group losses are equal at every step that was "
        "compared");
}

TEST_CASE("losses that are not comparable with those of most rows are explained") {
  const ComparisonRows alike =
      equal(runs_at({{"A", 1000}, {"B", 1000}, {"C", 1000}, {"D", 1000}}), {3}, {3});
  const auto legend = [](const ComparisonRows& rows) {
    const std::deque<Series> all = series_of(rows);
    return loss_legend(loss_facts(mapped(all, [](const Series& row) { return &row; })));
  };
  const auto other = [&](const std::function<void(ComparisonRow&)>& change, size_t from = 2) {
    return legend(with(alike, [&](auto& rows) {
      for (size_t i = from; i < rows.size(); ++i) {
        rows[i].loss_digest = "other" + std::to_string(i);
        change(rows[i]);
      }
    }));
  };
  CHECK(legend(alike).empty());
  CHECK(legend(with_losses(alike, {{3}, {3}, {3}, {4}})).empty());  // comparable, and they part
  CHECK(other([](auto& row) { row.spec.batch.total = 32; }) ==
        "* another batch than A and B: losses are not comparable");
  CHECK(other([](auto& row) { row.data_digest = "y"; }, 3) ==
        "* other input files than A, B and C: losses are not comparable");
  CHECK(other([](auto& row) {
          row.spec.method = Method::kLora;
        }).empty());  // methods are compared by their losses
  CHECK(other([](auto& row) {
          row.spec.train.seed = 2;
          row.spec.optimizer.learning_rate = 0.5;
        }) ==
        "* other optimizer.learning_rate, train.seed than A and B: losses are not comparable");
  CHECK(other([](auto& row) {
          row.spec.batch.size_per_rank = 8;
          row.spec.device = kCpu;
        }) ==
        "* other batch.size_per_rank (dropout), device (dropout) than A and B: losses are not "
        "comparable");
  CHECK(other([](auto&) {}) == "* another loss_digest than A and B: losses are not comparable");
  CHECK(other([](auto& row) { row.loss_digest.clear(); }) ==
        "* losses are not comparable with A and B: no record of the settings that decide the "
        "losses (C and D)");
  CHECK(other([](auto& row) {
          row.spec.batch.total = row.point == "C" ? 32 : 16;
          row.data_digest = "y";
        }) == "* losses are not comparable with A and B: another batch (C); other input files (D)");
  CHECK(legend(with(repeated({{"A", {1, 1}}, {"B", {1, 1}}, {"C", {1, 1}}}), [](auto& rows) {
          rows[0].status = RunStatus::kFailed;
          for (size_t i : {1, 4, 5}) rows[i].spec.batch.total = 32;
          for (size_t i = 2; i < 6; ++i) rows[i].loss_digest = rows[i].series;
        })) == "* another batch than B: losses are not comparable");
}

TEST_CASE("a set-up names what rows have in common") {
  ComparisonRows rows = runs_at({{"A", 1000}, {"B", 1000}}, kCpu);
  for (ComparisonRow& row : rows) {
    row.parameter_count = 6'620'000;
    row.threads = 1;
  }
  rows[1].threads = 2;
  const auto of_rows = [&](auto of) {
    const std::deque<Series> all = series_of(rows);
    return of(std::vector{&all[0], &all[1]});
  };
  CHECK(of_rows(set_up_of) ==
        "Llama 6.62M, fp32, 256 tokens a row, chess data, 100 steps of 16 sequences; a processor "
        "(CPU), 1-2 threads a rank, 4 ranks");
  rows[1].spec.precision.kind = PrecisionKind::kBf16True;
  rows[1].spec.strategy.ranks = 2;
  rows[1].steps = 50;
  rows[0].threads = 2;
  rows[0].spec.model.source = rows[1].spec.model.source = "/models/SmolLM2/";
  rows[1].spec.data.kind = DataKind::kText;
  CHECK(of_rows(set_up_of) ==
        "SmolLM2 6.62M, 256 tokens a row; a processor (CPU), 2 threads a rank");
  rows[0].spec.method = Method::kLora;
  CHECK_THAT(of_rows(set_up_of), !Catch::Contains("lora"));
  rows[1].spec.method = Method::kLora;
  CHECK_THAT(of_rows(set_up_of), Catch::StartsWith("SmolLM2 6.62M, lora, 256"));
  CHECK_THAT(of_rows(device_remark), Catch::StartsWith("No GPU is used: each rank is a process"));
  rows[0].spec.strategy.ranks = rows[1].spec.strategy.ranks = 1;
  CHECK(of_rows(device_remark) == "No GPU is used: speeds say nothing about GPUs.");
  rows[0].spec.device = kCuda;
  CHECK(of_rows(device_remark).empty());
}

}  // namespace
}  // namespace fsdp
