#include <catch2/catch.hpp>

#include "runner/experiment/experiment.h"
#include "tests/runner/experiment/expanded_experiment.h"

namespace fsdp {
namespace {

const std::string kLab = "experiment: lab\n";

const std::string kTwoStrategies = R"(experiment: lab
base: {strategy: {kind: ddp, ranks: 2}}
points:
  - {name: A, train.seed: 5}
  - {name: B, strategy: {kind: fsdp}}
)";

}  // namespace

TEST_CASE("a product varies its last key fastest and names each run") {
  const Expansion expansion = expanded(kTwoStrategies +
                                       "sweep:\n  product:\n    batch.size_per_rank: [1, 2]\n"
                                       "    activation_checkpointing.every: [0, 1]\n");
  CHECK(names(expansion) == Names{"A size_per_rank=1 every=0", "A size_per_rank=1 every=1",
                                  "A size_per_rank=2 every=0", "A size_per_rank=2 every=1",
                                  "B size_per_rank=1 every=0", "B size_per_rank=1 every=1",
                                  "B size_per_rank=2 every=0", "B size_per_rank=2 every=1"});
  CHECK(expansion.runs[2].spec.batch.size_per_rank == 2);
  CHECK(expansion.runs[2].spec.activation_checkpointing.every == 0);
  CHECK(expansion.runs[5].spec.activation_checkpointing.every == 1);
  CHECK(expansion.runs[5].spec.strategy.kind == StrategyKind::kFsdp);
}

TEST_CASE("a sweep takes lists as values, and names runs by what is in them") {
  const Expansion expansion =
      expanded("experiment: lab\nsweep: {product: {slurm.modules: [[gcc, cuda], [gcc], []]}}");
  CHECK(names(expansion) == Names{"lab modules=gcc,cuda", "lab modules=gcc", "lab modules="});
  CHECK(expansion.runs[0].spec.slurm.modules == Names{"gcc", "cuda"});
  CHECK(expansion.runs[1].spec.slurm.modules == Names{"gcc"});
  CHECK(expansion.runs[2].spec.slurm.modules.empty());
}

TEST_CASE("a sweep takes a section's short form") {
  const Expansion expansion = expanded(
      "experiment: lab\nbase: {strategy.wrap.blocks: 2}\n"
      "sweep: {product: {strategy.wrap: [none, transformer_block]}}");
  CHECK(names(expansion) == Names{"lab wrap=none", "lab wrap=transformer_block"});
  CHECK(expansion.runs[0].spec.strategy.wrap.policy == WrapPolicy::kNone);
  CHECK_FALSE(expansion.runs[1].spec.strategy.wrap.blocks);
}

TEST_CASE("keys with the same last component are named in full") {
  CHECK(names(expanded("experiment: lab\nsweep: {product: {optimizer.kind: [adamw], data.kind: "
                       "[chess], train.seed: [2]}}")) ==
        Names{"lab optimizer.kind=adamw data.kind=chess seed=2"});
}

TEST_CASE("zip advances its lists together") {
  const Expansion expansion = expanded(kLab + R"(
sweep:
  zip:
    strategy.kind: [ddp, fsdp, fsdp]
    batch.size_per_rank: [1, 2, 8]
)");
  CHECK(names(expansion) == Names{"lab kind=ddp size_per_rank=1", "lab kind=fsdp size_per_rank=2",
                                  "lab kind=fsdp size_per_rank=8"});
  CHECK(expansion.runs[0].spec.strategy.kind == StrategyKind::kDdp);
  CHECK(expansion.runs[2].spec.strategy.kind == StrategyKind::kFsdp);
  CHECK(expansion.runs[2].spec.batch.size_per_rank == 8);
}

TEST_CASE("of product and zip, what is written first is the outer one") {
  const std::string product = "  product: {batch.size_per_rank: [1, 2]}\n";
  const std::string zip = "  zip: {train.seed: [5, 6], train.steps: [50, 60]}\n";
  CHECK(names(expanded(kLab + "sweep:\n" + product + zip)) ==
        Names{"lab size_per_rank=1 seed=5 steps=50", "lab size_per_rank=1 seed=6 steps=60",
              "lab size_per_rank=2 seed=5 steps=50", "lab size_per_rank=2 seed=6 steps=60"});
  CHECK(names(expanded(kLab + "sweep:\n" + zip + product)) ==
        Names{"lab seed=5 steps=50 size_per_rank=1", "lab seed=5 steps=50 size_per_rank=2",
              "lab seed=6 steps=60 size_per_rank=1", "lab seed=6 steps=60 size_per_rank=2"});
}

TEST_CASE("include adds combinations, of any keys, behind the others") {
  const Expansion expansion = expanded(kLab + R"(
sweep:
  include:
    - {batch.size_per_rank: 16, activation_checkpointing.every: 1}
    - {train.seed: 7}
  product: {batch.size_per_rank: [1, 2]}
)");
  CHECK(names(expansion) == Names{"lab size_per_rank=1", "lab size_per_rank=2",
                                  "lab size_per_rank=16 every=1", "lab seed=7"});
  CHECK(expansion.runs[2].spec.activation_checkpointing.every == 1);
  CHECK(expansion.runs[3].spec.batch.size_per_rank == 4);
  CHECK(expansion.runs[3].spec.train.seed == 7);
  CHECK(names(expanded(kLab + "sweep: {include: [{train.seed: 7}, {train.seed: 8}]}")) ==
        Names{"lab seed=7", "lab seed=8"});
}

TEST_CASE("exclude leaves out what matches every key of one of its maps") {
  const std::string text = kTwoStrategies + R"(
sweep:
  product: {batch.size_per_rank: [1, 2, 4], train.steps: [10, 20]}
  exclude:
    - {point: A, batch.size_per_rank: [1, 2]}
    - {strategy: {kind: fsdp, ranks: 2}, train.steps: 10}
    - {batch.total: 8, train.seed: 1}
)";
  CHECK(names(expanded(text)) == Names{"A size_per_rank=4 steps=10", "A size_per_rank=4 steps=20",
                                       "B size_per_rank=1 steps=20", "B size_per_rank=2 steps=20"});
  const Expansion expansion = expanded(text);
  for (size_t i = 0; i < expansion.runs.size(); ++i) {
    CHECK(expansion.runs[i].position == static_cast<int64_t>(i));
  }
}

TEST_CASE("exclude leaves out what could not run") {
  CHECK(names(expanded(kLab + R"(
base: {batch.total: 6}
sweep:
  product: {batch.size_per_rank: [1, 2, 4]}
  exclude: [{batch.size_per_rank: 4}]
)")) == Names{"lab size_per_rank=1", "lab size_per_rank=2"});
}

TEST_CASE("a default that another key has taken the place of is no match for exclude") {
  CHECK(names(expanded(R"(
experiment: lab
sweep:
  include: [{strategy.wrap: transformer_block}, {strategy.wrap.blocks: 2}]
  exclude: [{strategy.wrap: transformer_block}]
)")) == Names{"lab blocks=2"});
}

TEST_CASE("an exclude that matches nothing is refused, unless with another profile it does") {
  const std::string head = kLab + "sweep:\n  product: {train.seed: [1, 2]}\n  exclude:\n";
  CHECK(message(head + "    - {train.seed: 1}\n    - {train.seed: [3, 4]}\n") ==
        "lab.yaml:6:7: 'sweep.exclude': leaves out nothing: no run of this block has all of these "
        "values; correct or remove it");
  CHECK_THAT(message(head + "    - {point: lab, strategy.kind: fsdp}\n"),
             Catch::StartsWith("lab.yaml:5:7: 'sweep.exclude': leaves out nothing"));
  const std::string profiles =
      "profiles: {a: {set: {strategy.kind: ddp}}, b: {set: {strategy.kind: fsdp}}}\n";
  CHECK(names(expanded(head + "    - {train.seed: 2, strategy.kind: fsdp}\n" + profiles)).size() ==
        2);
  CHECK(names(expanded(head + "    - {train.seed: 2, device: cuda}\n")).size() == 2);
  CHECK(expanded(head + "    - {train.seed: 2}\n", {.set = {"train.steps=3"}}).runs.size() == 1);
  CHECK_THAT(message(head + "    - {point: lap}\n"),
             Catch::StartsWith("lab.yaml:5:15: 'point': 'lap' is no point; did you mean 'lab'? "
                               "allowed: lab"));
}

TEST_CASE("blocks are joined in order, point by point") {
  CHECK(names(expanded(kTwoStrategies + R"(
sweep:
  - product: {batch.size_per_rank: [1, 2]}
    exclude: [{point: B, batch.size_per_rank: 2}]
  - zip: {train.seed: [8, 9], train.steps: [10, 20]}
    repeats: 2
)")) == Names{"A size_per_rank=1", "A size_per_rank=2", "A seed=8 steps=10 #1",
              "A seed=8 steps=10 #2", "A seed=9 steps=20 #1", "A seed=9 steps=20 #2",
              "B size_per_rank=1", "B seed=8 steps=10 #1", "B seed=8 steps=10 #2",
              "B seed=9 steps=20 #1", "B seed=9 steps=20 #2"});
}

TEST_CASE("a point's own sweep takes the place of the experiment's") {
  const Expansion expansion = expanded(R"(
experiment: lab
points:
  - {name: A}
  - name: B
    sweep: {zip: {train.seed: [7, 8], train.steps: [70, 80]}}
  - {name: C, sweep: none}
sweep:
  product: {batch.size_per_rank: [1, 2]}
)");
  CHECK(names(expansion) == Names{"A size_per_rank=1", "A size_per_rank=2", "B seed=7 steps=70",
                                  "B seed=8 steps=80", "C"});
  CHECK(expansion.runs[2].spec.train.seed == 7);
  CHECK(expansion.runs[4].spec == expanded("experiment: C").runs[0].spec);
}

TEST_CASE("repeats are runs of one series, with the same seed or one each") {
  const std::string text = "experiment: lab\nbase: {train.seed: 5}\nsweep:\n";
  const Expansion same = expanded(text + "  repeats: 3");
  REQUIRE(names(same) == Names{"lab #1", "lab #2", "lab #3"});
  for (int64_t repeat = 0; repeat < 3; ++repeat) {
    const Run& run = same.runs[static_cast<size_t>(repeat)];
    CHECK(run.series == "lab");
    CHECK(run.repeat == repeat);
    CHECK(run.position == repeat);
    CHECK(run.spec.train.seed == 5);
  }
  const Expansion changed = expanded(text + "  repeats: {count: 2, change_seed: true}\n" +
                                     "  product: {batch.size_per_rank: [1, 2]}");
  CHECK(names(changed) == Names{"lab size_per_rank=1 #1", "lab size_per_rank=1 #2",
                                "lab size_per_rank=2 #1", "lab size_per_rank=2 #2"});
  CHECK(changed.runs[2].spec.train.seed == 5);
  CHECK(changed.runs[3].spec.train.seed == 6);
  CHECK(changed.runs[3].series == "lab size_per_rank=2");
  CHECK(names(expanded(text + "  repeats: 1")) == Names{"lab"});
}

TEST_CASE("--only takes a series with its repeats, or one of them") {
  const std::string text =
      kLab + "sweep: {product: {train.steps: [10, 20]}, repeats: {count: 2, change_seed: true}}";
  CHECK(names(expanded(text, {.only = {"lab steps=20"}})) ==
        Names{"lab steps=20 #1", "lab steps=20 #2"});
  const Expansion one = expanded(text, {.only = {"lab steps=20 #2"}});
  REQUIRE(names(one) == Names{"lab steps=20 #2"});
  CHECK(one.runs[0].spec.train.seed == 2);
  CHECK(one.left_out.size() == 3);
}

TEST_CASE("--set of a key that the sweep varies does not make runs the same under two names") {
  const std::string text = kLab + "sweep: {product: {train.seed: [1, 2]}}";
  CHECK(message(text, {.set = {"train.seed=3"}}) ==
        "--set train.seed=3: 'train.seed': overrides what the sweep varies, so that the runs "
        "'lab seed=1' and 'lab seed=2' are the same; choose from the sweep with --only");
  CHECK(expanded(text, {.set = {"train.seed=3"}, .only = {"lab seed=1"}}).runs.size() == 1);
}

TEST_CASE("compare says what an experiment's rows are compared by") {
  const TemporaryFolder folder;
  const auto compare = [&](const std::string& text) {
    return Experiment::load(folder.write("lab.yaml", "experiment: lab\n" + text)).compare();
  };
  CHECK(compare("") == Comparison::kLoss);
  CHECK(compare("compare: loss") == Comparison::kLoss);
  CHECK(compare("compare: throughput") == Comparison::kThroughput);
  CHECK(message("experiment: lab\ncompare: speed") ==
        "lab.yaml:2:10: 'compare': 'speed' is not one of its values; allowed: loss, throughput");
}

}  // namespace fsdp
