#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "contract/spec/run_spec.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/spec/yaml_value.h"
#include "tests/contract/applied_overrides.h"

namespace fsdp {

TEST_CASE("what a synonym means is there, and what it says is not") {
  const std::vector<std::string> of_the_file{"experiment", "points", "product"};
  for (const Synonyms& synonym : synonyms()) {
    const std::string meant(synonym.meant);
    INFO(synonym.said << " mean " << meant);
    CHECK((is_key_of_a_run(meant) || !hint_of_key_with_value(meant).empty() ||
           enum_from_name<Dtype>(meant) ||
           std::ranges::find(of_the_file, meant) != of_the_file.end()));
    std::istringstream words{std::string(synonym.said)};
    for (std::string word; words >> word;) CHECK_FALSE(is_key_of_a_run(word));
  }
  CHECK(meanings("LR").size() == 1);
  CHECK(meanings("per-device-batch-size").size() == 1);
  CHECK(meanings("zzz").empty());
  CHECK(meanings("").empty());
  CHECK(meanings("gpus gpu").empty());
}

TEST_CASE("a word from another trainer is answered with the key or the value that it means") {
  struct Said {
    const char* yaml;
    const char* hint;
  };
  for (const auto& [yaml, hint] : {
           Said{"lr: 1e-4", "did you mean 'optimizer.learning_rate'?"},
           Said{"optimizer: {lr: 1e-4}", "did you mean 'learning_rate'?"},
           Said{"train.lr: 1e-4", "did you mean 'optimizer.learning_rate'?"},
           Said{"bs: 3", "did you mean 'batch.size_per_rank'?"},
           Said{"batch: {bs: 3}", "did you mean 'size_per_rank'?"},
           Said{"seq_len: 3", "did you mean 'data.sequence_length'?"},
           Said{"epochs: 3", "did you mean 'train.epochs'?"},
           Said{"gpus: 4", "did you mean 'strategy.ranks'?"},
           Said{"fp32: true", "did you mean 'precision'?"},
           Said{"dtype: bf16", "did you mean 'precision'?"},
           Said{"train: {precision: fp32}", "did you mean 'precision'?"},
           Said{"precision: {fp32: true}", "'fp32' is a value of 'precision.kind'"},
           Said{"device: gpu", "did you mean 'cuda'?"},
           Said{"device: fp32", "'fp32' is a value of 'precision.kind'"},
           Said{"precision: bf16", "did you mean 'bf16_true' or 'bf16_mixed'?"},
           Said{"precision: bfloat16", "did you mean 'bf16_true' or 'bf16_mixed'?"},
           Said{"precision: float32", "did you mean 'fp32'?"},
           Said{"precision.parameters: bfloat16", "did you mean 'bf16'?"},
           Said{"optimizer.state_dtype: float16", "did you mean 'fp16'?"},
           Said{"strategy.kind: zero3", "did you mean 'fsdp'?"},
           Said{"strategy.sharding: zero3", "did you mean 'full_shard'?"},
           Said{"strategy: zero3", "did you mean 'strategy.kind: fsdp'?"},
           Said{"strategy: fsdp", "did you mean 'strategy.kind: fsdp'?"},
           Said{"zero3: true", "did you mean 'strategy.kind'?"},
           Said{"strategy: {zero3: true}", "did you mean 'kind'?"},
           Said{"warmup: 10", "did you mean 'schedule.warmup_steps'?"},
           Said{"schedule: {num_warmup_steps: 10}", "did you mean 'warmup_steps'?"},
           Said{"r: 8", "did you mean 'lora.rank'?"},
           Said{"lora: {r: 8}", "did you mean 'rank'?"},
           Said{"lora_alpha: 8", "did you mean 'lora.alpha'?"},
           Said{"target_modules: [q_proj]", "did you mean 'lora.targets'?"},
           Said{"load_in_4bit: true", "did you mean 'method'?"},
           Said{"sequence_len: 2048", "did you mean 'data.sequence_length'?"},
           Said{"cutoff_len: 2048", "did you mean 'data.sequence_length'?"},
           Said{"sample_packing: true", "did you mean 'data.rows'?"},
           Said{"val_set_size: 0.1", "did you mean 'evaluation.fraction'?"},
           Said{"data.val_set_size: 0.1", "did you mean 'evaluation.fraction'?"},
           Said{"walltime: '01:00:00'", "did you mean 'slurm.time'?"},
           Said{"slurm: {queue: long}", "did you mean 'partition'?"},
       }) {
    INFO(yaml);
    const std::string told = message(yaml);
    CHECK(told.find(hint) < told.find("allowed: "));
  }
}

TEST_CASE("a model's name without a key is answered with the key") {
  CHECK(message("model: llama3-8b") ==
        "lab.yaml:1:8: 'model': 'llama3-8b' is a preset; write model.config: llama3-8b");
  CHECK_THAT(message("model: ../models/llama"),
             Catch::Contains("is not a map; write model.source: ../models/llama, or "));
}

TEST_CASE("where nothing is near, nothing is suggested") {
  for (const char* yaml : {"precision: fp8", "model.config: gemma-2b", "device: tpu", "qux: 3"}) {
    INFO(yaml);
    CHECK_THAT(message(yaml), !Catch::Contains("did you mean"));
  }
}

}  // namespace fsdp
