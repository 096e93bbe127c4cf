#include "runner/experiment/experiment.h"

#include <catch2/catch.hpp>

#include "tests/runner/experiment/expanded_experiment.h"

namespace fsdp {
namespace {

const std::string kTwoPoints = R"(experiment: lab
base: {strategy: {kind: ddp, ranks: 2}}
points:
  - {name: A, train.seed: 5}
  - {name: B, strategy: {kind: fsdp}}
)";

}  // namespace

TEST_CASE("an experiment without points is one point named after it") {
  const Expansion expansion = expanded("experiment: lab\nbase: {train.steps: 3}");
  REQUIRE(names(expansion) == Names{"lab"});
  CHECK(expansion.runs[0].spec.train.steps == 3);
  CHECK(expansion.runs[0].spec.device == DeviceKind::kCpu);
  CHECK(expansion.profile.empty());
  CHECK(expansion.profile_reason.empty());
}

TEST_CASE("a path that is not UTF-8 with its folder is refused at its place, not by the trainer") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "caf\xe9");
  const auto file = folder.write("caf\xe9/lab.yaml", "experiment: lab\nbase:\n  resume: step-1\n");
  const std::filesystem::path other = folder.write("lab.yaml", "experiment: lab\n");
  const auto expand = [](const std::filesystem::path& yaml, std::vector<std::string> set) {
    Experiment::load(yaml).expand({.set = std::move(set)}, {});
  };
  CHECK_THROWS_WITH(expand(file, {}),
                    Catch::Contains("lab.yaml:3:11") && Catch::Contains("is not UTF-8"));
  CHECK_THROWS_WITH(expand(other, {"resume=/caf\xe9"}),
                    Catch::Contains("--set") && Catch::Contains("not UTF-8"));
}

TEST_CASE("an experiment remembers what it was read from") {
  const TemporaryFolder folder;
  const std::string text = "experiment: lab\ntitle: A title\n";
  const Experiment experiment = Experiment::load(folder.write("lab.yaml", text));
  CHECK(experiment.name() == "lab");
  CHECK(experiment.title() == "A title");
  CHECK(experiment.file() == folder.path() / "lab.yaml");
  CHECK(experiment.text() == text);
}

TEST_CASE("points override base and keep what they do not name") {
  const Expansion expansion = expanded(kTwoPoints);
  REQUIRE(names(expansion) == Names{"A", "B"});
  CHECK(expansion.runs[0].spec.strategy.kind == StrategyKind::kDdp);
  CHECK(expansion.runs[0].spec.train.seed == 5);
  CHECK(expansion.runs[1].spec.strategy.kind == StrategyKind::kFsdp);
  CHECK(expansion.runs[1].spec.strategy.ranks == 2);
  CHECK(expansion.runs[1].spec.train.seed == 1);
}

TEST_CASE("layers win in the order base, profile, point, profile's point, sweep, --set") {
  std::string text = "experiment: lab\nbase: {train.seed: 1}\n";
  const auto seed = [&](const ExpandOptions& options = {}) {
    return expanded(text, options).runs.at(0).spec.train.seed;
  };
  CHECK(seed() == 1);
  text += "profiles:\n  p:\n    set: {train.seed: 2}\n";
  CHECK(seed() == 2);
  text += "points: [{name: A, train.seed: 3}]\n";
  CHECK(seed() == 3);
  text += "sweep: {product: {train.seed: [5]}}\n";
  CHECK(seed() == 5);
  CHECK(seed({.set = {"train.seed=6"}}) == 6);
}

TEST_CASE("what --set outranks in points is told with both values, and is in the rows' names") {
  struct Case {
    std::string set;
    Names names;
    std::string told;
    Names list;
  };
  const std::string text =
      "experiment: lab\nbase: {device: cpu, batch.size_per_rank: 4}\npoints:\n  - {name: A}\n"
      "  - {name: B, batch.size_per_rank: 8, slurm.max_restarts: 1}\n"
      "  - {name: C, sweep: {product: {batch.size_per_rank: [16]}, repeats: 2}}\n";
  const std::string c = "C size_per_rank=16";
  const Case cases[] = {
      {"batch.size_per_rank=2",
       {"A", "B [batch.size_per_rank=2]", c + " [batch.size_per_rank=2] #1",
        c + " [batch.size_per_rank=2] #2"},
       "--set batch.size_per_rank=2 outranks batch.size_per_rank: 8 of 'B' (lab.yaml:5:36), "
       "batch.size_per_rank: 16 of 'C' (lab.yaml:6:55)",
       {"batch.size_per_rank=2"}},
      {"batch.size_per_rank=8",
       {"A", "B", c + " [batch.size_per_rank=8] #1", c + " [batch.size_per_rank=8] #2"},
       "--set batch.size_per_rank=8 outranks batch.size_per_rank: 16 of 'C' (lab.yaml:6:55)",
       {"batch.size_per_rank=8"}},
      {"slurm.max_restarts=2",
       {"A", "B", c + " #1", c + " #2"},
       "--set slurm.max_restarts=2 outranks slurm.max_restarts: 1 of 'B' (lab.yaml:5:59)",
       {}},
      {"train.steps=3", {"A", "B", c + " #1", c + " #2"}, "", {"train.steps=3"}},
      {"device=cpu", {"A", "B", c + " #1", c + " #2"}, "", {}},
  };
  for (const Case& each : cases) {
    CAPTURE(each.set);
    const TemporaryFolder folder;
    const Expansion expansion =
        Experiment::load(folder.write("lab.yaml", text)).expand({.set = {each.set}}, kNoGpus);
    CHECK(names(expansion) == each.names);
    CHECK(expansion.list_overrides == each.list);
    CHECK(folder.without_folder(fmt::format("{}", fmt::join(expansion.overridden, ""))) ==
          each.told);
  }
  CHECK(names(expanded(text, {.set = {"batch.size_per_rank=2"}, .only = {"B"}})) ==
        Names{"B [batch.size_per_rank=2]"});
}

TEST_CASE("train.sequences gives every batch the same data") {
  const std::string text =
      "experiment: lab\nbase: {train.sequences: 100, strategy: {kind: ddp, ranks: 2}, device: "
      "cpu}\n"
      "sweep: {product: {batch.size_per_rank: [1, 5, 8]}}";
  const std::vector<Run> runs = expanded(text).runs;
  CHECK(runs.at(0).spec.train.steps == 50);
  CHECK(runs.at(1).spec.train.steps == 10);
  CHECK(runs.at(2).spec.train.steps == 6);
  CHECK_THAT(message(text, {.set = {"batch.total=160"}}),
             Catch::Contains("'train.sequences'") && Catch::Contains("at least 160"));
  CHECK(expanded(text, {.set = {"train.steps=3"}}).runs.at(0).spec.train.steps == 3);
}

TEST_CASE("an alternative clears the other of an earlier layer") {
  const std::string text =
      "experiment: lab\nbase: {batch.total: 16, train.epochs: 1}\n"
      "points: [{name: A, batch.gradient_accumulation_steps: 3, train.steps: 7}]";
  const RunSpec spec = expanded(text).runs.at(0).spec;
  CHECK(spec.batch.gradient_accumulation_steps == 3);
  CHECK(spec.batch.total == 12);
  CHECK(spec.train.steps == 7);
  CHECK(!spec.train.epochs);
  CHECK_THAT(message(text, {.set = {"batch.total=8", "batch.gradient_accumulation_steps=2"}}),
             Catch::StartsWith("--set batch.gradient_accumulation_steps=2: "
                               "'batch.gradient_accumulation_steps': excludes 'batch.total', which "
                               "is given at --set batch.total=8"));
}

TEST_CASE("--only takes points and runs by name") {
  const std::string text = kTwoPoints + "sweep: {product: {train.seed: [1, 2]}}";
  CHECK(names(expanded(text, {.only = {"B"}})) == Names{"B seed=1", "B seed=2"});
  CHECK(names(expanded(text, {.only = {"B seed=2", "A seed=1"}})) == Names{"A seed=1", "B seed=2"});
  CHECK(message("experiment: lab\npoints: [{name: 4xDDP}, {name: 4xFSDP}]", {.only = {"4xDPD"}}) ==
        "--only: '4xDPD': no point has this name; did you mean '4xDDP'? allowed: 4xDDP, 4xFSDP");
}

TEST_CASE("what --only leaves out is still expanded, but for what cannot be resolved") {
  const std::string text =
      "experiment: lab\npoints:\n  - {name: A}\n"
      "  - {name: B, batch: {total: 7, size_per_rank: 2}}\n"
      "  - {name: C, device: cuda, strategy: {kind: ddp, ranks: 9}}\n";
  const Expansion expansion = expanded(text, {.only = {"A"}});
  CHECK(names(expansion) == Names{"A"});
  REQUIRE(expansion.left_out.size() == 1);
  CHECK(expansion.left_out[0].point == "C");
  CHECK(expansion.left_out[0].position == 2);
}

TEST_CASE("--set reads its value as YAML and says what is wrong with it") {
  const RunSpec spec =
      expanded("experiment: lab", {.set = {"strategy={kind: ddp, ranks: 2}", "train.steps=4"}})
          .runs.at(0)
          .spec;
  CHECK(spec.strategy.ranks == 2);
  CHECK(spec.train.steps == 4);
  CHECK(message("experiment: lab", {.set = {"train.step=4"}}) ==
        "--set train.step=4: 'train.step': unknown key; did you mean 'steps'? allowed: steps, "
        "epochs, sequences, max_steps, seed, deterministic, warmup_steps_excluded, account_steps, trace_steps, "
        "fingerprint_steps, on_non_finite, report_gradient_norm");
  CHECK(message("experiment: lab", {.set = {"train.steps=many"}}) ==
        "--set train.steps=many: 'train.steps': 'many' is not an integer; allowed: an integer, at "
        "least 1 and at most 1000000000, or null");
  CHECK(message("experiment: lab", {.set = {"train.steps"}}) ==
        "--set train.steps: is not path=value, such as strategy.ranks=2");
  CHECK_THAT(message("experiment: lab", {.set = {"train.steps=1", "train.steps=2"}}),
             Catch::Contains("duplicate key"));
}

TEST_CASE("device auto follows the GPUs, and ranks must not outnumber them") {
  const std::string text =
      "experiment: lab\nbase:\n  strategy:\n    kind: ddp\n    ranks: 4\n"
      "points: [{name: four}, {name: one, strategy: {kind: single, ranks: 1}}]";
  CHECK(expanded(text).runs[0].spec.device == DeviceKind::kCpu);
  CHECK(expanded(text, {}, kFourGpus).runs[0].spec.device == DeviceKind::kCuda);
  CHECK(
      message(text, {}, {.gpu_count = 2}) ==
      "lab.yaml:5:12: 'strategy.ranks': 4 ranks need 4 GPUs, but there are 2; allowed: at most 2, "
      "or device: cpu (in 'four')");
  CHECK_THAT(message(text, {.set = {"device=cuda"}}),
             Catch::Contains("but there are none; allowed: device: cpu, or a plan without GPUs: "
                             "fsdp-run plan FILE --gpu NAME (in 'four')"));
  CHECK(expanded(text, {.set = {"device=cpu"}}, {.gpu_count = 2}).runs.size() == 2);
  CHECK(expanded(text, {.only = {"one"}}, {.gpu_count = 2}).runs.size() == 1);
}

TEST_CASE("a contradiction between layers names the one that came last") {
  const std::string text =
      "experiment: lab\nbase:\n  batch: {total: 16}\npoints:\n  - name: A\n"
      "  - name: B\n    batch.size_per_rank: 3\n";
  CHECK(
      message(text) ==
      "lab.yaml:3:18: 'batch.total': 16 does not divide into micro-batches of 3 per rank x 1 ranks "
      "= 3; the nearest that do: 15 and 18 (in 'B')");
  CHECK_THAT(message(text, {.set = {"batch.total=9"}}), Catch::StartsWith("--set batch.total=9: "));
  CHECK(message("experiment: lab\nbase: {data.kind: tokens}") ==
        "lab.yaml:2:19: 'data.train': is missing; data.kind tokens needs a file (in 'lab')");
}

}  // namespace fsdp
