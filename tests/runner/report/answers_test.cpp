#include "runner/answers/answers.h"

#include <random>

#include "tests/runner/report/made_up_results.h"

// Made-up results with a known truth.
namespace fsdp {
namespace {

std::vector<Case> cases_of_speed() {
  const ComparisonRows two = runs_at({{"A", 1000}, {"B", 2000}});
  return {
      {"one row has no rival", runs_at({{"A", 1000}}), "Speed", "1000 tokens/s, 4096 ms a step"},
      {"twice as fast", two, "Speed",
       "B is fastest, with 2000 tokens/s (x2.00 of A); next is A, with 1000"},
      {"the baseline is fastest", runs_at({{"A", 2000}, {"B", 1000}}), "Speed",
       "A is fastest, with 2000 tokens/s; next is B, with 1000"},
      {"equal", runs_at({{"A", 1000}, {"B", 1000}}), "Speed",
       "no difference exceeds the noise: 1000 tokens/s"},
      {"4 % on a GPU is what one run moves by", runs_at({{"A", 1000}, {"B", 1040}}), "Speed",
       "no difference exceeds the noise: 1000 to 1040 tokens/s"},
      {"8 % on a GPU is not", runs_at({{"A", 1000}, {"B", 1080}}), "Speed",
       "B is fastest, with 1080 tokens/s (x1.08 of A); next is A, with 1000"},
      {"15 % on a CPU is what one run moves by", runs_at({{"A", 1000}, {"B", 1150}}, kCpu), "Speed",
       "no difference exceeds the noise: 1000 to 1150 tokens/s"},
      {"30 % on a CPU is not", runs_at({{"A", 1000}, {"B", 1300}}, kCpu), "Speed",
       "B is fastest, with 1300 tokens/s (x1.30 of A); next is A, with 1000"},
      {"steps vary by more than rows differ",
       with(two,
            [](auto& rows) {
              rows[0].step_time_ms_p25 = 1500;
              rows[1].step_time_ms_p75 = 2500;
            }),
       "Speed", "no difference exceeds the noise: 1000 to 2000 tokens/s"},
      {"two as fast as each other, one slower", runs_at({{"A", 1000}, {"B", 2000}, {"C", 2020}}),
       "Speed", "C and B are fastest, with 2000 to 2020 tokens/s, equal within noise"},
      {"three steps tell nothing", with(two, [](auto& rows) { rows[1].steps = 5; }), "Speed",
       "1000 to 2000 tokens/s; not ranked, because of too few steps: B (raise train.steps)"},
      {"of runs of one step nothing is known",
       with(runs_at({{"A", 1020}, {"B", 102000}}),
            [](auto& rows) {
              for (ComparisonRow& row : rows) row.steps = 1;
            }),
       "Speed",
       "1020 to 102000 tokens/s; not ranked, because of too few steps: B and A (raise "
       "train.steps)"},
      {"one of three has too few steps",
       with(runs_at({{"A", 1000}, {"B", 2000}, {"C", 9000}}),
            [](auto& rows) { rows[2].steps = 3; }),
       "Speed",
       "B is fastest, with 2000 tokens/s (x2.00 of A); next is A, with 1000; not ranked, because "
       "of too few steps: C (raise train.steps)"},
      {"who is next is as uncertain as who is fastest",
       runs_at({{"A", 1000}, {"B", 2000}, {"C", 1010}}), "Speed",
       "B is fastest, with 2000 tokens/s (x2.00 of A); next are C and A, with 1000 to 1010, equal "
       "within noise"},
      {"tokens that fill up are not counted",
       with(two,
            [](auto& rows) {
              rows[0].unpadded_tokens_per_second = 990;
              rows[1].unpadded_tokens_per_second = 400;
            }),
       "Speed", "A is fastest, with 990 unpadded tokens/s; next is B, with 400"},
      {"rows are as full as each other",
       with(two,
            [](auto& rows) {
              rows[0].unpadded_tokens_per_second = 500;
              rows[1].unpadded_tokens_per_second = 1001;
            }),
       "Speed", "B is fastest, with 2000 tokens/s (x2.00 of A); next is A, with 1000"},
      {"other devices", with(two, [](auto& rows) { rows[1].device_name = "another"; }), "Speed",
       "1000 to 2000 tokens/s; no row is called fastest, because the rows ran on different "
       "devices"},
      {"other models",
       with(two, [](auto& rows) { rows[1].spec = R"({"model":{"config":{"hidden_size":8}}})"; }),
       "Speed",
       "1000 to 2000 tokens/s; no row is called fastest, because the rows have different models"},
      {"who failed does not win", ended(runs_at({{"A", 1000}, {"B", 9000}}), 1, RunStatus::kFailed),
       "Speed", "1000 tokens/s, 4096 ms a step"},
      {"nothing finished", ended(runs_at({{"A", 1000}}), 0, RunStatus::kOutOfMemory), "Speed", ""},
      {"five repeats apart",
       repeated({{"A", {100, 101, 102, 103, 104}}, {"B", {120, 121, 122, 123, 124}}}), "Speed",
       "B is fastest, with 122 tokens/s (x1.20 of A); next is A, with 102"},
      {"five repeats in a row on a CPU that drifts by as much",
       repeated({{"A", {100, 101, 102, 103, 104}}, {"B", {110, 111, 112, 113, 114}}}), "Speed",
       "no difference exceeds the noise: 102 to 112 tokens/s"},
      {"five repeats of the same",
       repeated({{"A", {100, 105, 95, 102, 98}}, {"B", {101, 104, 96, 99, 103}}}), "Speed",
       "no difference exceeds the noise: 100 to 101 tokens/s"},
      {"a 95 % interval of this ratio excludes 1 by chance",
       repeated({{"A", {100, 101, 103, 98, 106}}, {"B", {105, 106, 104, 107, 99}}}), "Speed",
       "no difference exceeds the noise: 101 to 105 tokens/s"},
      {"three repeats apart by less than a run moves",
       repeated({{"A", {100, 101, 102}}, {"B", {108, 109, 110}}}), "Speed",
       "no difference exceeds the noise: 101 to 109 tokens/s"},
      {"three repeats far apart", repeated({{"A", {100, 101, 102}}, {"B", {150, 155, 160}}}),
       "Speed", "B is fastest, with 155 tokens/s (x1.53 of A); next is A, with 101"},
      {"three repeats far apart in the middle, one overlaps",
       repeated({{"A", {100, 101, 170}}, {"B", {150, 155, 160}}}), "Speed",
       "no difference exceeds the noise: 101 to 155 tokens/s"},
  };
}

std::vector<Case> cases_of_memory() {
  const ComparisonRows two = runs_at({{"A", 1000}, {"B", 1000}});
  const ComparisonRows three = runs_at({{"A", 1000}, {"B", 1000}, {"C", 1000}});
  return {
      {"all fit, one with least", with_memory(two, {2048, 1024}), "Fits",
       "all 2; least memory: B, 1.00 GiB a rank, x0.50 of A"},
      {"the baseline takes least", with_memory(two, {1024, 2048}), "Fits",
       "all 2; least memory: A, 1.00 GiB a rank"},
      {"two take as little", with_memory(three, {2048, 1024, 1030}), "Fits",
       "all 3; least memory: B and C, 1.00-1.01 GiB a rank, x0.50 of A"},
      {"two take as little, and their ratios read differently",
       with_memory(three, {2048, 1030, 1040}), "Fits",
       "all 3; least memory: B and C, 1.01-1.02 GiB a rank, x0.50 to x0.51 of A"},
      {"all take as much as each other", with_memory(two, {1024, 1030}), "Fits",
       "all 2; each takes 1.00-1.01 GiB a rank"},
      {"all the same", with_memory(two, {1024, 1024}), "Fits", "all 2; each takes 1.00 GiB a rank"},
      {"one alone", with_memory(runs_at({{"A", 1}}), {1024}), "Fits", "yes; 1.00 GiB a rank"},
      {"one does not fit, and took least before it failed",
       with(ended(with_memory(three, {2048, 1024, 512}), 2, RunStatus::kOutOfMemory),
            [](auto& rows) { rows[2].memory_limit_gib = 1.5; }),
       "Fits", "2 of 3; does not fit in 1.50 GiB: C; least memory: B, 1.00 GiB a rank, x0.50 of A"},
      {"none fits", ended(ended(two, 0, RunStatus::kOutOfMemory), 1, RunStatus::kOutOfMemory),
       "Fits", "0 of 2; do not fit: A and B"},
      {"one failed, one runs",
       ended(ended(with_memory(three, {1024, 1024, 1024}), 1, RunStatus::kFailed), 2,
             RunStatus::kRunning),
       "Fits", "1 of 1 that finished or did not fit; failed: B; running: C; 1.00 GiB a rank"},
      {"interrupted and planned",
       ended(ended(with_memory(two, {1024, 1024}), 0, RunStatus::kInterrupted), 1,
             RunStatus::kPlanned),
       "Fits", "not known; interrupted: A; planned: B"},
      {"of a doubled key the largest that finished",
       doubled({{1, RunStatus::kFinished},
                {2, RunStatus::kFinished},
                {4, RunStatus::kOutOfMemory},
                {8, RunStatus::kOutOfMemory}}),
       "Fits", "largest batch.size_per_rank that fits: 2 for FSDP"},
      {"of a doubled key all fit", doubled({{1, RunStatus::kFinished}, {2, RunStatus::kFinished}}),
       "Fits", "largest batch.size_per_rank that fits: 2 for FSDP (no larger value was tried)"},
      {"of a doubled key none fits", doubled({{1, RunStatus::kOutOfMemory}}), "Fits",
       "largest batch.size_per_rank that fits: none for FSDP"},
  };
}

std::vector<Case> cases_of_losses() {
  const ComparisonRows two = runs_at({{"A", 1000}, {"B", 1000}});
  const ComparisonRows three = runs_at({{"A", 1000}, {"B", 1000}, {"C", 1000}});
  return {
      {"equal to the last bit", with_losses(two, {{3, 2, 1}, {3, 2, 1}}), "Loss",
       "A and B are equal at all 3 steps"},
      {"sums in another order", with_losses(two, {{3, 2, 1}, {3, 2.0000004, 1}}), "Loss",
       "A and B agree to 2e-7 at all 3 steps"},
      {"a bound is rounded up", with_losses(two, {{3, 2, 1}, {3, 2.0000298, 1}}), "Loss",
       "A and B agree to 2e-5 at all 3 steps"},
      {"they part in between and meet again", with_losses(two, {{3, 2, 1}, {3, 2.5, 1}}), "Loss",
       "A and B do not agree: A 2, B 2.5 at step 2"},
      {"bf16 may differ by more",
       with(with_losses(two, {{3, 2, 1}, {3, 2.02, 1}}),
            [](auto& rows) { rows[0].precision = rows[1].precision = "bf16_true"; }),
       "Loss", "A and B agree to 1e-2 at all 3 steps"},
      {"another batch cannot be compared",
       with(with_losses(three, {{3, 2}, {3, 2}, {9, 9}}),
            [](auto& rows) {
              rows[2].loss_digest = "other";
              rows[2].total_batch = 32;
            }),
       "Loss", "A and B are equal at all 2 steps; C not compared: another total batch"},
      {"no two are comparable", with(two, [](auto& rows) { rows[1].total_batch = 32; }), "Loss",
       "cannot be compared with A: B has another total batch"},
      {"one row", runs_at({{"A", 1000}}), "Loss", "6.9315 -> 2.5000"},
      {"one of them is not finite",
       with(with_losses(two, {{3, 2}, {3, 2}}), [](auto& rows) { rows[1].losses[1].loss.reset(); }),
       "Loss", "A and B do not agree: B not finite, A 2 at step 2"},
  };
}

// Runs that were resumed, have losses that are not finite, or do not compute the same.
std::vector<Case> cases_of_unequal_runs() {
  const ComparisonRows two = runs_at({{"A", 1000}, {"B", 1000}});
  const ComparisonRows three = runs_at({{"A", 1000}, {"B", 1000}, {"C", 1000}});
  const auto resumed = [](auto& rows) {
    rows[1].resumed_from_step = 1;
    rows[1].losses.erase(rows[1].losses.begin());
  };
  const auto without_steps = [](auto& rows) {
    for (ComparisonRow& row : rows) row.losses.clear();
  };
  return {
      {"a resumed run has the steps since its checkpoint",
       with(with_losses(two, {{3, 2, 1}, {3, 2, 1}}), resumed), "Loss",
       "A and B are equal at the 2 steps that all have (B resumed from step 1)"},
      {"a resumed run parts", with(with_losses(two, {{3, 2, 1}, {3, 2, 1.5}}), resumed), "Loss",
       "A and B do not agree: A 1, B 1.5 at step 3 (B resumed from step 1)"},
      {"of runs that were all resumed nobody has the first steps",
       with(with_losses(two, {{3, 2, 1}, {3, 2, 1}}),
            [](auto& rows) {
              for (ComparisonRow& row : rows) {
                row.resumed_from_step = 1;
                row.losses.erase(row.losses.begin());
              }
            }),
       "Loss",
       "A and B are equal at the 2 steps that all have (A resumed from step 1, B resumed from step "
       "1)"},
      {"where steps were not read a resumed run has its last",
       with(with(with_losses(two, {{3, 2}, {3, 2}}), resumed),
            [&](auto& rows) {
              without_steps(rows);
              rows[0].steps_planned = rows[1].steps_planned = 100;
            }),
       "Loss", "A and B are equal at the last step (B resumed from step 1)"},
      {"the last loss is not finite",
       with(with_losses(two, {{3, 2}, {3, 2}}),
            [&](auto& rows) {
              without_steps(rows);
              rows[1].loss_last.reset();
            }),
       "Loss", "A and B do not agree: B not finite, A 2.5 at step 100"},
      {"a loss that is not finite is said of one run",
       with(runs_at({{"A", 1000}}), [](auto& rows) { rows[0].loss_last.reset(); }), "Loss",
       "6.9315 -> not finite"},
      {"no loss is finite",
       with(with_losses(two, {{3, 2}, {3, 2}}),
            [](auto& rows) {
              for (ComparisonRow& row : rows) {
                for (StepLoss& step : row.losses) step.loss.reset();
              }
            }),
       "Loss", "A and B have no finite loss at all 2 steps"},
      {"runs of one step",
       with(with(with_losses(two, {{3}, {3}}), without_steps),
            [](auto& rows) { rows[0].steps = rows[1].steps = 1; }),
       "Loss", "A and B are equal at the last step"},
      {"other repeats have other seeds",
       with(with_losses(repeated({{"A", {100, 100}}, {"B", {100, 100}}}), {{3}, {4}, {3}, {4}}),
            [](auto& rows) { rows[1].loss_digest = rows[3].loss_digest = "second seed"; }),
       "Loss",
       "A #0 and B #0 are equal at the only step; A #1 and B #1 are equal at the only step"},
      {"an old database holds no digest",
       with(with_losses(three, {{3}, {3}, {3}}), [](auto& rows) { rows[2].loss_digest.clear(); }),
       "Loss",
       "A and B are equal at the only step; C not compared: no record of the settings that decide "
       "the losses"},
      {"a digest differs and nobody knows why",
       with(with_losses(three, {{3}, {3}, {3}}), [](auto& rows) { rows[2].loss_digest = "x"; }),
       "Loss", "A and B are equal at the only step; C not compared: another loss_digest"},
      {"input files differ",
       with(with_losses(three, {{3}, {3}, {3}}),
            [](auto& rows) {
              rows[2].loss_digest = "x";
              rows[2].data_digest = "y";
            }),
       "Loss", "A and B are equal at the only step; C not compared: other input files"},
      {"keys differ",
       with(with_losses(three, {{3}, {3}, {3}}),
            [](auto& rows) {
              for (ComparisonRow& row : rows) row.spec = R"({"train":{"seed":1}})";
              rows[2].loss_digest = "x";
              rows[2].spec = R"({"train":{"seed":2},"optimizer":{"learning_rate":0.5}})";
            }),
       "Loss",
       "A and B are equal at the only step; C not compared: other optimizer.learning_rate, "
       "train.seed"},
  };
}

// Some repeats of these rows ran out of memory.
std::vector<Case> cases_of_repeats_without_room() {
  const ComparisonRows mixed =
      with(with_memory(repeated({{"A", {100, 100, 100, 100, 100}}, {"B", {900, 1, 1, 1, 1}}}),
                       {2048, 2048, 2048, 2048, 2048, 1024, 1024, 1024, 1024, 1024}),
           [](auto& rows) {
             for (size_t i = 6; i < 10; ++i) rows[i].status = RunStatus::kOutOfMemory;
           });
  return {
      {"a row that fits once in five times does not fit", mixed, "Fits",
       "1 of 2; B ran out of memory in 4 of 5 repeats; 2.00 GiB a rank"},
      {"a row that fits once in five times is not fastest", mixed, "Speed",
       "100 tokens/s, 40960 ms a step; not ranked, because repeats ran out of memory: B"},
  };
}

// Runs that waited for CPU time that other processes took.
std::vector<Case> cases_of_busy_hosts() {
  const ComparisonRows two = runs_at({{"A", 1000}, {"B", 2000}});
  const ComparisonRows three = runs_at({{"A", 1000}, {"B", 2000}, {"C", 9000}});
  const ComparisonRows repeats =
      repeated({{"A", {100, 101, 102, 103, 104}}, {"B", {120, 121, 122, 123, 124}}});
  const ComparisonRows pair =
      with_memory(that_differ_in("/strategy/offload", "optimizer", 1000, 1490), {2048, 1024});
  return {
      {"who was disturbed is not beaten", disturbed(two, 0), "Speed",
       "1000 to 2000 tokens/s; not ranked, because other processes took CPU time: A (run again on "
       "a quiet host)"},
      {"a disturbed rival is not fastest", disturbed(three, 2), "Speed",
       "B is fastest, with 2000 tokens/s (x2.00 of A); next is A, with 1000; not ranked, because "
       "other processes took CPU time: C (run again on a quiet host)"},
      {"there is no ratio to a disturbed baseline", disturbed(three, 0), "Speed",
       "C is fastest, with 9000 tokens/s; next is B, with 2000; not ranked, because other "
       "processes took CPU time: A (run again on a quiet host)"},
      {"one disturbed row alone", disturbed(runs_at({{"A", 1000}}), 0), "Speed",
       "1000 tokens/s, 4096 ms a step; not ranked, because other processes took CPU time: A (run "
       "again on a quiet host)"},
      {"two of five disturbed repeats move no median", disturbed(disturbed(repeats, 5), 6), "Speed",
       "B is fastest, with 122 tokens/s (x1.20 of A); next is A, with 102"},
      {"three of five do", disturbed(disturbed(disturbed(repeats, 5), 6), 7), "Speed",
       "102 to 122 tokens/s; not ranked, because other processes took CPU time: B (run again on a "
       "quiet host)"},
      {"what offload costs is not told of a disturbed run", disturbed(pair, 1), "Offload",
       "changed against plain: memory x0.50, not compared by speed, because other processes took "
       "CPU time"},
      {"memory and losses are untouched", disturbed(with_memory(two, {2048, 1024}), 1), "Fits",
       "all 2; least memory: B, 1.00 GiB a rank, x0.50 of A"},
  };
}

std::vector<Case> cases_of_changes() {
  return {
      {"offload costs time and saves memory",
       with_memory(that_differ_in("/strategy/offload", "optimizer", 1000, 500), {2048, 1024}),
       "Offload", "changed against plain: memory x0.50, tokens/s x0.50"},
      {"a larger batch, within noise", that_differ_in("/batch/size_per_rank", 8, 1000, 1020),
       "Batch", "changed against plain: memory x1.00, tokens/s x1.02 (within noise)"},
      {"rows that differ in something else are no pair",
       with(that_differ_in("/strategy/offload", "optimizer", 1000, 500),
            [](auto& rows) {
              json spec = json::parse(rows[1].spec);
              spec["batch"]["size_per_rank"] = 8;
              rows[1].spec = spec.dump();
            }),
       "Offload", ""},
      {"rows of different devices are no pair",
       with(that_differ_in("/strategy/offload", "optimizer", 1000, 500),
            [](auto& rows) { rows[1].device_name = "another"; }),
       "Offload", ""},
      {"who did not finish is in no pair",
       ended(that_differ_in("/strategy/offload", "optimizer", 1000, 500), 1,
             RunStatus::kOutOfMemory),
       "Offload", ""},
  };
}

// A varies so much that it ties with B and with C. C is slower than B.
std::vector<Case> cases_of_rows_that_are_equal_to_one_only() {
  const std::vector<double> varying{700, 1010, 1500};
  const std::vector<double> ten_of_1000(10, 1000), ten_of_900(10, 900), ten_of_5000(10, 5000);
  const ComparisonRows three =
      repeated({{"A", varying}, {"B", ten_of_1000}, {"C", ten_of_900}}, kCuda);
  return {
      {"rows of which one is slower than another are not equal", three, "Speed",
       "A and B are fastest, with 1000 to 1010 tokens/s, equal within noise"},
      {"nor are those that are next",
       repeated({{"A", varying}, {"B", ten_of_1000}, {"C", ten_of_900}, {"D", ten_of_5000}}, kCuda),
       "Speed",
       "D is fastest, with 5000 tokens/s (x4.95 of A); next are A and B, with 1000 to 1010, equal "
       "within noise"},
  };
}

// Runs that did not finish, and ties.
std::vector<Case> cases_of_ends() {
  const ComparisonRows two = runs_at({{"A", 1000}, {"B", 2000}});
  const ComparisonRows no_room =
      ended(ended(two, 0, RunStatus::kOutOfMemory), 1, RunStatus::kOutOfMemory);
  return {
      {"nothing fits, so nothing is fast", no_room, "Speed", ""},
      {"nothing fits, so there is no loss", no_room, "Loss", ""},
      {"nothing fits in limits that differ",
       with(no_room,
            [](auto& rows) {
              rows[0].memory_limit_gib = 1;
              rows[1].memory_limit_gib = 2;
            }),
       "Fits", "0 of 2; do not fit: A and B"},
      {"what the queue ended may fit",
       ended(with_memory(two, {1024, 1024}), 1, RunStatus::kTimeLimit), "Fits",
       "1 of 1 that finished or did not fit; time_limit: B; 1.00 GiB a rank"},
      {"what runs still is not fastest", ended(two, 1, RunStatus::kRunning), "Speed",
       "1000 tokens/s, 4096 ms a step"},
      {"three as fast as each other", runs_at({{"A", 1000}, {"B", 1010}, {"C", 990}}), "Speed",
       "no difference exceeds the noise: 990 to 1010 tokens/s"},
      {"a repeat that failed counts for nothing",
       with(repeated({{"A", {100, 101, 102, 103, 104}}, {"B", {120, 121, 122, 123, 124, 900}}}),
            [](auto& rows) { rows.back().status = RunStatus::kFailed; }),
       "Speed", "B is fastest, with 122 tokens/s (x1.20 of A); next is A, with 102"},
      {"names that read as two are quoted", runs_at({{"A and B", 1000}, {"A; B", 1000}, {"C", 9}}),
       "Speed", "'A and B' and 'A; B' are fastest, with 1000 tokens/s, equal within noise"},
      {"names that read as words are quoted", runs_at({{"one process", 1000}, {"two", 2000}}),
       "Speed",
       "two is fastest, with 2000 tokens/s (x2.00 of 'one process'); next is 'one process', with "
       "1000"},
      {"repeats of one point have no rival", repeated({{"A", {100, 101, 102}}}), "Speed",
       "101 tokens/s, 40554 ms a step"},
      {"repeats of one point with one seed",
       with_losses(repeated({{"A", {100, 100}}}), {{3, 2}, {3, 2}}), "Loss",
       "the repeats of A are equal at all 2 steps"},
      {"both losses are not finite",
       with(with_losses(runs_at({{"A", 1000}, {"B", 1000}}), {{3, 2}, {3, 2}}),
            [](auto& rows) { rows[0].losses[1].loss = rows[1].losses[1].loss = std::nullopt; }),
       "Loss", "A and B are equal at all 2 steps, of which 1 is not finite"},
      {"activations computed again cost nothing that shows",
       with_memory(that_differ_in("/activation_checkpointing", json{{"every", 1}}, 1000, 980),
                   {2048, 512}),
       "Recompute", "changed against plain: memory x0.25, tokens/s x0.98 (within noise)"},
      {"another precision", that_differ_in("/precision", "bf16_mixed", 1000, 1900), "Precision",
       "changed against plain: memory x1.00, tokens/s x1.90"},
      {"another number of steps is no change of precision",
       with(that_differ_in("/precision", "bf16_mixed", 1000, 1900),
            [](auto& rows) {
              json spec = json::parse(rows[1].spec);
              spec["train"]["steps"] = 7;
              rows[1].spec = spec.dump();
            }),
       "Precision", ""},
  };
}

// Rows of two methods.
std::vector<Case> cases_of_methods() {
  const auto method = [](ComparisonRow& row, const char* name, int64_t rank) {
    json spec = json::parse(row.spec);
    spec["method"] = name;
    spec["lora"]["rank"] = rank;
    spec["optimizer"]["learning_rate"] = 1e-5 * static_cast<double>(rank);
    row.spec = spec.dump();
  };
  const ComparisonRows two = with(runs_at({{"A", 1000}, {"B", 1500}}), [&](auto& rows) {
    method(rows[0], "full", 8);
    method(rows[1], "lora", 32);
  });
  const ComparisonRows four =
      with(with_losses(runs_at({{"A", 1000}, {"A2", 1000}, {"B", 1500}, {"B2", 1500}}),
                       {{3, 2}, {3, 2}, {3, 1}, {3, 1}}),
           [&](auto& rows) {
             for (size_t i : {2, 3}) {
               method(rows[i], "lora", 8);
               rows[i].loss_digest = "of adapters";
             }
           });
  return {
      {"a method has its price, whatever its rank and learning rate",
       with_memory(two, {4096, 1024}), "Method", "B against A: memory x0.25, tokens/s x1.50"},
      {"another rank of adapters is no other method",
       with(two, [&](auto& rows) { method(rows[0], "lora", 4); }), "Method", ""},
      {"an older version had the method full only",
       with(two,
            [](auto& rows) {
              json spec = json::parse(rows[0].spec);
              spec.erase("method");
              rows[1].spec = spec.dump();
            }),
       "Method", ""},
      {"losses of two methods are not compared", two, "Loss",
       "cannot be compared with A: B has another method"},
      {"nor if their total batches differ, too",
       with(two, [](auto& rows) { rows[1].total_batch = 32; }), "Loss",
       "cannot be compared with A: B has another method"},
      {"losses are compared within each method", four, "Loss",
       "A and A2 are equal at all 2 steps; B and B2 are equal at all 2 steps; losses of different "
       "methods are not compared"},
      {"this is said once, and of no single run",
       with(four, [](auto& rows) { rows[2].loss_digest = "alone"; }), "Loss",
       "A and A2 are equal at all 2 steps; losses of different methods are not compared"},
      {"another total batch is still said of a run of the same method",
       with(four,
            [](auto& rows) {
              rows.push_back(run_at("C", 1000));
              rows.back().total_batch = 32;
            }),
       "Loss",
       "A and A2 are equal at all 2 steps; B and B2 are equal at all 2 steps; C not compared: "
       "another total batch than A; losses of different methods are not compared"},
  };
}

TEST_CASE("answers about results whose truth is known") {
  check(cases_of_speed());
  check(cases_of_memory());
  check(cases_of_losses());
  check(cases_of_unequal_runs());
  check(cases_of_repeats_without_room());
  check(cases_of_busy_hosts());
  check(cases_of_changes());
  check(cases_of_methods());
  check(cases_of_rows_that_are_equal_to_one_only());
  check(cases_of_ends());
}

TEST_CASE("no answer has a ratio to a row of which no run finished") {
  const ComparisonRows three =
      with_memory(runs_at({{"A", 1000}, {"B", 2000}, {"C", 1000}}), {4096, 1024, 2048});
  for (const RunStatus status : {RunStatus::kFailed, RunStatus::kOutOfMemory}) {
    const ComparisonRows rows = with(three, [&](auto& all) { all[0].status = status; });
    CHECK(answer_of(rows, "Speed", "A") ==
          "B is fastest, with 2000 tokens/s; next is C, with 1000");
    CHECK_THAT(answer_of(rows, "Fits", "A"), Catch::EndsWith("least memory: B, 1.00 GiB a rank"));
  }
  const ComparisonRows unmeasured =
      with(three, [](auto& all) { all[0].memory_allocated_bytes_max.reset(); });
  CHECK_THAT(answer_of(unmeasured, "Fits"), Catch::EndsWith("least memory: B, 1.00 GiB a rank"));
}

TEST_CASE("of rows that are as fast as each other none is called fastest") {
  std::mt19937_64 random(18);
  std::normal_distribution<double> run_to_run(1, 0.06);
  int false_winners = 0;
  constexpr int kExperiments = 200;
  for (int experiment = 0; experiment < kExperiments; ++experiment) {
    ComparisonRows rows;
    for (const char* point : {"A", "B", "C"}) {
      std::vector<double> speeds;
      for (int repeat = 0; repeat < (experiment % 2 == 0 ? 1 : 5); ++repeat) {
        speeds.push_back(1000 * run_to_run(random));
      }
      add_repeats(rows, point, speeds);
    }
    const std::string answer = answer_of(rows, "Speed");
    REQUIRE_FALSE(answer.empty());
    if (answer.find("is fastest") != std::string::npos) ++false_winners;
  }
  CHECK(false_winners <= kExperiments / 100);
}

TEST_CASE("a specification that others wrote takes no report down") {
  Report report;
  report.rows = runs_at({{"A", 1000}, {"B", 2000}});
  for (const std::string& spec :
       {std::string(1'000'000, '['), std::string("{\"model\":\xff}"), std::string("[]"),
        std::string(R"({"model":3,"strategy":[],"data":{"kind":{}}})")}) {
    for (ComparisonRow& row : report.rows) row.spec = spec;
    CHECK_THAT(render(Format::kTable, report), Catch::Contains("B is fastest"));
  }
}

TEST_CASE("a set-up names what rows have in common") {
  ComparisonRows rows = runs_at({{"A", 1000}, {"B", 1000}}, kCpu);
  for (ComparisonRow& row : rows) {
    row.parameter_count = 6'620'000;
    row.threads = 1;
    row.spec =
        R"({"model":{"config":{"architecture":"LlamaForCausalLM"}},"data":{"kind":"chess"}})";
  }
  rows[1].threads = 2;
  const auto set_up = [&] {
    const std::deque<Series> all = series_of(rows);
    return set_up_of(std::vector{&all[0], &all[1]});
  };
  CHECK(set_up() ==
        "Llama 6.62M, fp32, 256 tokens a row, chess data; a processor "
        "(CPU), 1-2 threads, 4 ranks");
  rows[1].precision = "bf16_true";
  rows[1].ranks = 2;
  rows[0].spec = rows[1].spec = R"({"model":{"source":"/models/SmolLM2/"}})";
  CHECK(set_up() == "SmolLM2 6.62M, 256 tokens a row; a processor (CPU), 1-2 threads");
  rows[0].spec = R"({"model":{"source":"/models/SmolLM2/"},"method":"lora"})";
  CHECK(set_up() == "SmolLM2 6.62M, 256 tokens a row; a processor (CPU), 1-2 threads");
  rows[1].spec = rows[0].spec;
  CHECK(set_up() == "SmolLM2 6.62M, lora, 256 tokens a row; a processor (CPU), 1-2 threads");
}

}  // namespace
}  // namespace fsdp
