#include "contract/spec/run_spec.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "contract/spec/run_spec_yaml.h"
#include "tests/contract/applied_overrides.h"

namespace fsdp {
namespace {

// Returns the message that refuses `text`.
std::string contradiction(const std::string& text) {
  try {
    resolved(applied(text));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("every number has a largest value, the default is below it, and doubling it fits") {
  const RunSpec defaults;
  int numbers = 0;
  for (const RunSpecKey& key : run_spec_keys()) {
    const bool is_number = key.is_integer || key.allowed.starts_with("a number");
    if (!is_number) continue;
    ++numbers;
    CAPTURE(key.name);
    CHECK(key.range.maximum < (key.is_integer ? 0x1p62 : INFINITY));
    if (key.is_given(defaults)) CHECK(key.range.contains(std::stod(key.yaml(defaults))));
  }
  CHECK(numbers > 50);
}

TEST_CASE("a step has the tokens of all rows, of articles and summaries both") {
  RunSpec spec;
  spec.batch.total = 16;
  spec.data.sequence_length = 128;
  CHECK(tokens_per_step(spec) == 16 * 128);
  spec.data.kind = DataKind::kWikihow;
  CHECK(tokens_per_step(spec) == 16 * (512 + 150));
}

TEST_CASE("products that would wrap are refused by name") {
  const std::string many =
      "batch.size_per_rank: 1000000\nbatch.gradient_accumulation_steps: 1000000\n";
  CHECK_THAT(contradiction(many), Catch::Contains("'batch.size_per_rank': 1000000 per rank x 1"));
  CHECK_THAT(contradiction("batch.size_per_rank: 1\ntrain.sequences: 1000000000000000"),
             Catch::Contains("'train.sequences': 1000000000000000 gives 1000000000000000 steps; "
                             "allowed: at most 1000000000"));
  CHECK_THAT(contradiction("train.steps: 1000000000\nbatch.total: 1000000000"),
             Catch::Contains("'train.steps'") && Catch::Contains("tokens in all"));
  CHECK_THAT(
      contradiction("model.config: {hidden_size: 600000, num_hidden_layers: 100000, "
                    "intermediate_size: 10000000}"),
      Catch::Contains("'model.config': asks for 1") && Catch::Contains("at most 1000000000000000"));
}

TEST_CASE("epochs over many rows are counted without wrapping") {
  RunSpec spec = resolved(applied("train.epochs: 1000000000"));
  constexpr int64_t kStepsPerEpoch = int64_t{1} << 40;
  CHECK(wanted_steps(spec, kStepsPerEpoch) == std::numeric_limits<int64_t>::max());
  CHECK_THROWS_WITH(planned_steps(spec, kStepsPerEpoch), Catch::Contains("'train.epochs'"));
  spec.train.max_steps = 7;
  CHECK(planned_steps(spec, kStepsPerEpoch) == 7);
}

TEST_CASE("differences name a section's first key in short, as before it was a section") {
  CHECK(differences_from_default(applied("precision: bf16_true")) == "precision=bf16_true\n");
  CHECK(differences_from_default(applied("strategy.wrap: none")) == "strategy.wrap=none\n");
  CHECK(differences_from_default(applied("precision: {parameters: bf16, reduction: fp32}")) ==
        "precision.parameters=bf16\nprecision.reduction=fp32\n");
}

TEST_CASE("a section with a short form is written either way") {
  CHECK(applied("precision: bf16_mixed").precision.kind == PrecisionKind::kBf16Mixed);
  CHECK(applied("precision.kind: bf16_mixed") == applied("precision: bf16_mixed"));
  CHECK(applied("precision: {kind: bf16_mixed}") == applied("precision: bf16_mixed"));
  const RunSpec dtypes = applied("precision: {parameters: bf16, reduction: fp32}");
  CHECK(dtypes.precision.parameters == Dtype::kBf16);
  CHECK(dtypes.precision.reduction == Dtype::kFp32);
  CHECK_FALSE(dtypes.precision.buffers);

  CHECK(applied("strategy.wrap: none").strategy.wrap.policy == WrapPolicy::kNone);
  CHECK(applied("strategy: {wrap: none}") == applied("strategy.wrap.policy: none"));
  CHECK(applied("strategy.wrap: {blocks: 2}").strategy.wrap.blocks == 2);
  CHECK(applied("strategy: {wrap: {blocks: 2}}") == applied("strategy.wrap.blocks: 2"));
}

TEST_CASE("a mistake in a short form names its place and what is allowed") {
  CHECK(
      message("strategy:\n  wrap: nona\n") ==
      "lab.yaml:2:9: 'strategy.wrap.policy': 'nona' is not one of its values; did you mean 'none'? "
      "allowed: none, transformer_block");
  CHECK(message("precision: fp32\nprecision.kind: fp32") ==
        "lab.yaml:2:1: 'precision.kind': duplicate key; first given at lab.yaml:1:12");
  CHECK_THAT(message("strategy.wrap: {policy: none, blocks: 2}"),
             Catch::Contains("'strategy.wrap.blocks': excludes 'strategy.wrap.policy'"));
  CHECK_THAT(message("precision: {kind: fp32, buffers: bf16}"),
             Catch::Contains("'precision.buffers': excludes 'precision.kind'"));
}

TEST_CASE("a later layer's short form takes the place of an earlier one's keys, and back") {
  const auto both = [](const std::string& earlier, const std::string& later) {
    RunSpec spec = applied(earlier);
    overlay(spec, later);
    return spec;
  };
  const std::string dtypes = "precision: {parameters: bf16, buffers: bf16}";
  CHECK(both(dtypes, "precision: fp32") == RunSpec{});
  CHECK(both("precision: bf16_true", dtypes) == applied(dtypes));
  CHECK(both("strategy.wrap: none", "strategy.wrap: {blocks: 2}") ==
        applied("strategy.wrap.blocks: 2"));
  CHECK(both("strategy.wrap.blocks: 2", "strategy.wrap: none") == applied("strategy.wrap: none"));
  CHECK(both("strategy.wrap.blocks: 2", "strategy.wrap.min_parameters: 9") ==
        applied("strategy.wrap.min_parameters: 9"));
  CHECK(both("evaluation.data: v.npy", "evaluation.fraction: 0.1") ==
        applied("evaluation.fraction: 0.1"));
  CHECK(both("train.steps: 5", "train.sequences: 8") == applied("train.sequences: 8"));
}

TEST_CASE("resume is auto, never, a path or nothing") {
  CHECK_FALSE(RunSpec{}.resume.is_given());
  CHECK(applied("resume: auto").resume.is_auto);
  CHECK(applied("resume: never").resume == AutoOrPath{.is_never = true, .path = {}});
  CHECK(to_yaml(applied("resume: never")).find("\nresume: never\n") != std::string::npos);
  CHECK(applied("resume: ./auto").resume == AutoOrPath{.is_auto = false, .path = "/data/lab/auto"});
  CHECK_FALSE(applied("resume: null").resume.is_given());
  CHECK(to_yaml(applied("resume: auto")).find("\nresume: auto\n") != std::string::npos);
  CHECK_THAT(message("resume: [auto]"),
             Catch::StartsWith("lab.yaml:1:9: 'resume': a list is not a path"));
}

TEST_CASE("keys that contradict each other are refused with the reason") {
  const std::string hybrid = "strategy: {kind: fsdp, ranks: 4, sharding: hybrid_shard";
  CHECK_THAT(contradiction(hybrid + "}"),
             Catch::StartsWith("'strategy.shard_group_size': is missing"));
  CHECK(contradiction(hybrid + ", shard_group_size: 3}") ==
        "'strategy.shard_group_size': 3 does not divide strategy.ranks 4");
  CHECK(contradiction(hybrid + ", shard_group_size: 2}") == "no error");
  CHECK(contradiction("strategy: {kind: ddp, ranks: 4, shard_group_size: 3}") == "no error");

  const std::string in_backward = "optimizer.in_backward: true\n";
  CHECK(contradiction(in_backward) == "no error");
  for (const auto& [excluded, words] :
       {std::pair("optimizer.gradient_clip_norm: 1", "optimizer.gradient_clip_norm"),
        std::pair("train.report_gradient_norm: true", "train.report_gradient_norm"),
        std::pair("precision: fp16_mixed", "precision fp16_mixed"),
        std::pair("train.on_non_finite: skip", "train.on_non_finite skip")}) {
    CHECK_THAT(contradiction(in_backward + excluded),
               Catch::StartsWith(std::string("'optimizer.in_backward': excludes ") + words));
  }

  const std::string fp64 = "precision: fp64\n";
  CHECK_THAT(contradiction(fp64), Catch::StartsWith("'precision': fp64 is for CPUs"));
  CHECK(contradiction(fp64 + "device: cpu") == "no error");
  for (const auto& [excluded, words] :
       {std::pair("method: qlora", "method qlora"),
        std::pair("optimizer.state_dtype: fp32", "optimizer.state_dtype")}) {
    CHECK_THAT(contradiction(fp64 + "device: cpu\n" + excluded),
               Catch::StartsWith(std::string("'precision': fp64 excludes ") + words));
  }

  for (const std::string precision :
       {"{kind: bf16_true, gradients: fp32}", "{kind: fp16_mixed, gradients: fp16}",
        "{parameters: bf16, gradients: bf16}", "{reduction: bf16, gradients: fp32}"}) {
    CHECK(contradiction("precision: " + precision) == "no error");
  }
  CHECK(contradiction("precision.gradients: bf16") ==
        "'precision.gradients': is bf16, but the computation is in fp32; allowed: fp32");
  CHECK(contradiction("precision: {parameters: bf16, gradients: fp16}") ==
        "'precision.gradients': is fp16, but the computation is in bf16; allowed: bf16 or fp32");

  const std::string stochastic = "optimizer.rounding: stochastic\n";
  CHECK(contradiction(stochastic) == "no error");
  CHECK(contradiction(stochastic + "optimizer.state_dtype: bf16") == "no error");
  CHECK(contradiction("optimizer.state_dtype: fp16") == "no error");
  CHECK_THAT(contradiction(stochastic + "optimizer.state_dtype: fp16"),
             Catch::StartsWith("'optimizer.rounding': stochastic rounds to bf16 only"));
  const std::string int8 = "optimizer.state_dtype: int8\n";
  CHECK(contradiction(int8) == "no error");
  CHECK(contradiction(int8 + stochastic + "optimizer.kind: adam") == "no error");
  CHECK(contradiction(int8 + "optimizer.kind: sgd") ==
        "'optimizer.state_dtype': int8 is for adamw and adam, but optimizer.kind is sgd; allowed "
        "with it: fp32, bf16, fp16, or no state_dtype");

  const std::string split =
      "data: {train: a.jsonl, tokenizer: b, split_special_tokens: true, kind: ";
  CHECK(contradiction(split + "text}") == "no error");
  CHECK_THAT(contradiction(split + "messages}"),
             Catch::StartsWith("'data.split_special_tokens': "));

  for (const std::string when : {"every_steps: 5", "each_epoch: true"}) {
    CHECK_THAT(contradiction("evaluation." + when),
               Catch::StartsWith("'evaluation.data': is missing"));
    CHECK(contradiction("evaluation: {fraction: 0.1, " + when + "}") == "no error");
    CHECK(contradiction("evaluation: {data: v.csv, " + when + "}") == "no error");
    CHECK(contradiction("checkpoint.when_improved: true\nevaluation: {fraction: 0.1, " + when +
                        "}") == "no error");
  }
  CHECK_THAT(contradiction("checkpoint.when_improved: true"),
             Catch::StartsWith("'checkpoint.when_improved': needs evaluations"));

  const std::string above = "optimizer.learning_rate: 1e-3\nschedule.min_learning_rate: 2e-3\n";
  for (const std::string kind : {"linear", "cosine"}) {
    CHECK(contradiction(above + "schedule.kind: " + kind) ==
          "'schedule.min_learning_rate': 0.002 is above optimizer.learning_rate 0.001");
  }
  CHECK(contradiction(above + "schedule.kind: step") == "no error");
}

TEST_CASE("a merge is refused with the reason unless there is something to merge") {
  const std::string merge = "checkpoint: {merge: true";
  for (const std::string keys : {"", ", merge_dtype: bf16"}) {
    CHECK(contradiction("method: lora\n" + merge + keys + "}") == "no error");
  }
  CHECK(contradiction("method: qlora\n" + merge + ", merge_dtype: fp16}") == "no error");
  CHECK_THAT(
      contradiction("method: qlora\n" + merge + "}"),
      Catch::StartsWith("'checkpoint.merge_dtype': is missing; qlora's weights have 4 bits"));
  CHECK_THAT(contradiction(merge + "}"),
             Catch::StartsWith("'checkpoint.merge': is true, but method is full"));
  CHECK_THAT(
      contradiction("method: lora\n" + merge + ", state_dict: sharded}"),
      Catch::StartsWith("'checkpoint.merge': is true, but checkpoint.state_dict is sharded"));
  CHECK_THAT(
      contradiction("method: lora\ncheckpoint.merge_dtype: fp32"),
      Catch::StartsWith("'checkpoint.merge_dtype': is given, but checkpoint.merge is false"));
}

TEST_CASE("what a run wants follows from any of a section's keys") {
  CHECK_FALSE(wants_checkpoints(applied("checkpoint.keep: 2")));
  CHECK(wants_checkpoints(applied("checkpoint.every_steps: 2")));
  CHECK(wants_checkpoints(applied("checkpoint.at_end: true")));
  CHECK(wants_checkpoints(applied("checkpoint.when_improved: true")));
  CHECK_FALSE(wants_evaluations(applied("evaluation.fraction: 0.1")));
  CHECK(wants_evaluations(applied("evaluation.every_steps: 3")));
  CHECK(wants_evaluations(applied("evaluation.each_epoch: true")));
  EvaluationSpec evaluation;
  CHECK(held_out_rows(evaluation, 100) == 0);
  evaluation.fraction = 0.25;
  CHECK(held_out_rows(evaluation, 10) == 2);
  CHECK(held_out_rows(evaluation, 3) == 1);
}

}  // namespace fsdp
