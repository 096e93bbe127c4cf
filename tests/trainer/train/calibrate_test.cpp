#include "trainer/calibrate/calibrate.h"

#include "base/text/json.h"
#include "contract/spec/run_spec_yaml.h"
#include "formats/inputs/inputs.h"
#include "tests/contract/applied_overrides.h"
#include "tests/contract/input_fixtures.h"
#include "tests/trainer/small_decoder.h"
#include "trainer/comm/mirror_group.h"
#include "trainer/plan/plan_run.h"

namespace fsdp::calibrate_test {

// Counts the timings that ranks agree on. Its other ranks are so slow that nothing is repeated
// often.
class SlowGroup : public MirrorGroup {
 public:
  SlowGroup() : MirrorGroup(1) {}
  Pending all_reduce(at::Tensor tensor, int) override {
    ++timings;
    tensor.fill_(1e9);
    return {};
  }
  int timings = 0;
};

int timings_of(int rounds) {
  RunSpec spec;
  spec.data.sequence_length = 4;
  const ModelConfig config = tiny_decoder(1);
  SlowGroup world;
  calibrate(spec, config, *make_backend(at::kCPU), world, rounds);
  return world.timings;
}

TEST_CASE("a calibration times each piece once a round") {
  const int of_one_round = timings_of(1);
  CHECK(of_one_round > 0);
  CHECK(timings_of(2) == 2 * of_one_round);
}

RunPlan plan_after_calibration(const RunSpec& spec) {
  const TemporaryFolder results;
  SlowGroup world;
  Calibration measured = calibrate(spec, spec.model.config, *make_backend(at::kCPU), world, 1);
  measured.device = "this one";
  measured.threads = 1;
  const auto file = calibration_file(results.path(), calibration_identity(spec, spec.model.config),
                                     "this one", measured.libtorch);
  std::filesystem::create_directories(file.parent_path());
  results.write(file.lexically_relative(results.path()), json_text(measured));
  return plan_run({.specification = to_yaml(spec),
                   .device = {.name = "this one"},
                   .host = {},
                   .results = results.path()});
}

TEST_CASE("every method, state and kind of data is calibrated, and planned with these times") {
  const std::string files = "train: none, tokenizer: none, sequence_length: 16";
  const std::string decoder =
      "{architecture: LlamaForCausalLM, num_attention_heads: 2, num_key_value_heads: 2, ";
  const std::string t5 = "{architecture: T5ForConditionalGeneration, num_attention_heads: 2, ";
  const auto [model, data] = GENERATE_COPY(table<std::string, std::string>(
      {{decoder, "kind: tokens, train: none, sequence_length: 16"},
       {decoder, "kind: chess, sequence_length: 16, rows: pack"},
       {decoder, "kind: text, rows: pack, " + files},
       {decoder, "kind: instructions, rows: pad_to_longest, " + files},
       {decoder, "kind: messages, format: chatml, " + files},
       {t5, "kind: instructions, input_length: 16, target_length: 8, " + files},
       {t5, "kind: wikihow, input_length: 16, target_length: 8, " + files}}));
  const std::string method = GENERATE("full", "lora", "qlora");
  const std::string state = GENERATE("fp32", "bf16", "int8");
  CAPTURE(data, method, state);
  const RunPlan plan = plan_after_calibration(resolved(applied(
      "{model.config: " + model +
      "num_hidden_layers: 3, hidden_size: 64, intermediate_size: 96, vocab_size: 97}, data: {" +
      data + "}, method: " + method + ", optimizer.state_dtype: " + state +
      ", train.steps: 2, threads_per_rank: 1, strategy.kind: single, device: cpu}")));
  CAPTURE(plan.assumptions);
  CHECK(plan.step_time_ms > 0);
}

}  // namespace fsdp::calibrate_test
