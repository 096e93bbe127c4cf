#include "trainer/checkpoint/basis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

namespace fsdp::basis_test {

RunSpec small_spec() {
  RunSpec spec;
  spec.batch.total = 8;
  return spec;
}

TEST_CASE("a base saved again, or a value spelled out, is no other basis") {
  const RunSpec spec = small_spec();
  const Basis was = basis_of(spec, spec.model.config, 10);
  RunSpec now = spec;
  now.model.config.head_dim = now.model.config.head_width();
  now.model.config.num_decoder_layers = now.model.config.num_hidden_layers;
  now.model.config.initializer_range = 0.5;
  now.kernels = KernelSet::kAten;
  now.batch.size_per_rank = 3;
  CHECK(difference(was, basis_of(now, now.model.config, 10)).empty());
  now.model.config.head_dim = 7;
  CHECK(difference(was, basis_of(now, now.model.config, 10)) ==
        "model.config.head_dim 48; the run's is 7");
}

TEST_CASE("a key whose default changes is compared, because a basis has all keys that decide") {
  const RunSpec spec = small_spec();
  Basis was = basis_of(spec, spec.model.config, 10);
  const auto named = [&](const std::string& key) {
    return std::ranges::find_if(was.keys, [&](auto& line) { return line.starts_with(key + '='); });
  };
  CHECK(named("batch.size_per_rank") == was.keys.end());
  REQUIRE(named("optimizer.beta2") != was.keys.end());
  *named("optimizer.beta2") = "optimizer.beta2=0.5";
  CHECK(difference(was, basis_of(spec, spec.model.config, 10)) ==
        "optimizer.beta2 0.5; the run's is 0.95");
}

// Returns the difference after the change of a run.
std::string difference_after(const RunSpec& spec, const std::function<void(RunSpec&)>& change) {
  RunSpec now = spec;
  change(now);
  return difference(basis_of(spec, spec.model.config, 10), basis_of(now, now.model.config, 10));
}

TEST_CASE("a key that decides losses is named with both values, and no other key") {
  using Cases = std::vector<std::pair<std::function<void(RunSpec&)>, const char*>>;
  const Cases cases{
      {[](RunSpec& run) { run.data.shuffle = false; }, "data.shuffle true; the run's is false"},
      {[](RunSpec& run) { run.data.rows = RowFill::kPadToLongest; },
       "data.rows pad; the run's is pad_to_longest"},
      {[](RunSpec& run) { run.data.sequence_length = 7; },
       "data.sequence_length 256; the run's is 7"},
      {[](RunSpec& run) { run.train.seed = 2; }, "train.seed 1; the run's is 2"},
      {[](RunSpec& run) { run.evaluation.fraction = 0.25; },
       "evaluation.fraction 0; the run's is 0.25"},
      {[](RunSpec& run) { run.optimizer.state_dtype = StateDtype::kInt8; },
       "optimizer.state_dtype null; the run's is int8"},
      {[](RunSpec& run) { run.batch.total = 48; }, "batch.total 8; the run's is 48"},
      {[](RunSpec& run) { run.model.config.num_hidden_layers = 2; },
       "model.config.num_hidden_layers 6; the run's is 2"},
      {[](RunSpec& run) { run.checkpoint.state_dict = StateDict::kSharded; }, ""},
      {[](RunSpec& run) { run.train.steps = 12; }, ""}};
  for (const auto& [change, said] : cases) CHECK(difference_after(small_spec(), change) == said);
  RunSpec in_order = small_spec();
  in_order.data.shuffle = false;
  CHECK(difference_after(in_order, cases[3].first).empty());  // the seed orders nothing
}

TEST_CASE("adapters of other settings, and inputs of other contents, are another basis") {
  RunSpec spec = small_spec();
  spec.method = Method::kLora;
  spec.lora.targets = {"attention"};
  const Basis was = basis_of(spec, spec.model.config, 10);
  CHECK(difference_after(spec, [](auto& run) { run.lora.alpha = 32; }) ==
        "lora.alpha 16; the run's is 32");
  CHECK(difference_after(spec, [](auto& run) { run.lora.use_rslora = true; }) ==
        "lora.use_rslora false; the run's is true");
  CHECK(difference_after(spec, [](auto& run) { run.method = Method::kQlora; }) ==
        "method lora; the run's is qlora");
  CHECK_THAT(difference_after(spec,
                              [](auto& run) {
                                run.lora.targets = {"q_proj", "v_proj"};
                              }),
             Catch::EndsWith("the run's is [\"q_proj\", \"v_proj\"]"));
  CHECK(difference_after(spec, [](auto& run) {
          run.lora.targets = {"v_proj", "q_proj", "o_proj", "k_proj"};
        }).empty());
  Basis now = was;
  now.data = "other";
  CHECK_THAT(difference(was, now), Catch::StartsWith("training data of other contents"));
  now = was;
  now.frozen_weights = "other";
  CHECK(difference(was, now).empty());  // the checkpoint's are not known
  Basis known = was;
  known.frozen_weights = "digest";
  CHECK(difference(known, now) ==
        "frozen weights of other values (model.source, or train.seed), digest digest; the run's "
        "is other");
}

}  // namespace fsdp::basis_test
