#include <catch2/catch.hpp>

#include "runner/commands/check.h"
#include "tests/runner/experiment/expanded_experiment.h"

// The table and warnings of `check`, from made-up plans.
namespace fsdp {
namespace {

using Catch::Matchers::Contains;

constexpr int64_t kGib = int64_t{1} << 30;

// The output of check for an experiment of 100 steps with these keys in its base.
struct Checked {
  Checked(const std::string& keys, std::optional<RunPlan> plan)
      : expansion(
            expanded("experiment: lab\nbase: {device: cpu, train.steps: 100, " + keys + "}\n")),
        preflight{.expansion = expansion,
                  .compare = Comparison::kLoss,
                  .host = kNoGpus,
                  .on_cluster = false,
                  .results = "."} {
    preflight.plans = {{.point = "lab",
                        .spec = expansion.runs.front().spec,
                        .device = "the CPU",
                        .plan = std::move(plan),
                        .problem = "the model is odd"}};
  }

  std::string row() const { return preflight_table(preflight, 0).back(); }
  std::string warnings() const {
    std::string text;
    for (const std::string& warning : preflight_warnings(preflight)) text += warning + '\n';
    return text;
  }

  Expansion expansion;
  Preflight preflight;
};

RunPlan plan_of(int64_t checkpoint_bytes) {
  RunPlan plan;
  plan.memory_device_bytes_max = 3 * kGib;
  plan.checkpoint_bytes = checkpoint_bytes;
  plan.fit = Fit::kFits;
  return plan;
}

TEST_CASE("check shows the planned memory, and the room for all checkpoints that exist at once") {
  const auto row = [](const std::string& keys) { return Checked(keys, plan_of(kGib)).row(); };
  CHECK_THAT(Checked("", plan_of(0)).row(), Catch::EndsWith("3.00  fits"));
  CHECK_THAT(row("checkpoint.at_end: true"), Catch::EndsWith("3.00  fits         1.00"));
  CHECK_THAT(row("checkpoint.every_steps: 20"), Catch::EndsWith(" 5.00"));
  // at_end adds a checkpoint, unless every_steps has one at the last step.
  CHECK_THAT(row("checkpoint: {every_steps: 20, at_end: true}"), Catch::EndsWith(" 5.00"));
  CHECK_THAT(row("checkpoint: {every_steps: 30, at_end: true}"), Catch::EndsWith(" 4.00"));
  // The oldest checkpoint is deleted when a new one is complete.
  CHECK_THAT(row("checkpoint: {every_steps: 20, keep: 2}"), Catch::EndsWith(" 3.00"));
  CHECK_THAT(row("evaluation: {every_steps: 10, fraction: 0.1}, checkpoint: {every_steps: 20, "
                 "keep: 2, when_improved: true}"),
             Catch::EndsWith(" 4.00"));
}

TEST_CASE("check shows how many parameters there are, and how many are trained") {
  const auto lines = [](const std::string& points) {
    const Expansion expansion = expanded(
        "experiment: lab\nbase: {device: cpu, train.steps: 100}\npoints: " + points + "\n");
    std::string text;
    for (const std::string& line : preflight_table({.expansion = expansion,
                                   .compare = Comparison::kLoss,
                                   .host = kNoGpus,
                                   .on_cluster = false,
                                   .results = "."},
                                                   0)) {
      text += line + '\n';
    }
    return text;
  };
  const std::string full = "{name: a}", lora = "{name: b, method: lora, lora.rank: 4}";
  CHECK_THAT(lines("[" + full + "]"), !Contains("Trained"));
  CHECK_THAT(lines("[" + lora + "]"), Contains("6.57M") && Contains("Trained"));
  const std::string both = lines("[" + full + ", " + lora + "]");
  CHECK_THAT(both, Contains("Trained") && Contains("Each run: 400 sequences, 6.57M parameters\n"));
  const std::string equal = lines("[" + lora + ", {name: c, method: lora, lora.rank: 4}]");
  CHECK_THAT(equal, !Contains("Trained") && Contains("6.57M parameters, 131K trained\n"));
}

TEST_CASE("check shows the steps that a run does, after max_steps and for the size of the data") {
  const TemporaryFolder folder;
  const std::string rows = folder.write("data.jsonl",
                                        "{\"instruction\": \"a\", \"output\": \"b\"}\n"
                                        "{\"instruction\": \"c\", \"output\": \"d\"}\n"
                                        "{\"instruction\": \"e\", \"output\": \"f\"}\n");
  const std::string data = "data: {kind: instructions, tokenizer: " FSDP_EXPERIMENTS_FOLDER
                           "/data/chess/tokenizer.model, train: " +
                           rows + ", rows: ";
  const auto row = [](const std::string& keys) {
    const Expansion expansion =
        expanded("experiment: lab\nbase: {device: cpu, batch.size_per_rank: 1, " + keys + "}\n");
    return preflight_table({.expansion = expansion,
                            .compare = Comparison::kLoss,
                            .host = kNoGpus,
                            .on_cluster = false,
                            .results = "."},
                           0)
        .back();
  };
  // Columns: point, strategy, ranks, batch, total batch, steps, sequences.
  CHECK_THAT(row("train: {steps: 100, max_steps: 8}, batch.total: 2"),
             Catch::Matches("lab +single +1 +1x2 +2 +8 +16 .*"));
  CHECK_THAT(row("train.epochs: 4, batch.total: 1, " + data + "pad_to_longest}"),
             Catch::Matches("lab +single +1 +1x1 +1 +12 +12 .*"));
  CHECK_THAT(row("train: {epochs: 4, max_steps: 5}, batch.total: 1, " + data + "pad_to_longest}"),
             Catch::Matches("lab +single +1 +1x1 +1 +5 +5 .*"));
  CHECK_THAT(row("train.epochs: 4, batch.total: 1, " + data + "pack}"),
             Catch::Matches("lab +single +1 +1x1 +1 +- .*"));
}

TEST_CASE("check warns of checkpoints that the disk has no room for") {
  const std::string keys = "checkpoint.every_steps: 1";
  CHECK_THAT(Checked(keys, plan_of(kGib * kGib)).warnings(),
             Contains("checkpoints will take") && Contains("see checkpoint.keep"));
  CHECK(Checked(keys, plan_of(1)).warnings() == "");
}

TEST_CASE("check says why a run has no plan") {
  CHECK(Checked("", std::nullopt).warnings() == "lab cannot be planned: the model is odd\n");
}

TEST_CASE("without plans check shows neither memory nor checkpoints") {
  Checked checked("checkpoint.every_steps: 1", plan_of(kGib));
  checked.preflight.plans.clear();
  for (const std::string& line : preflight_table(checked.preflight, 0)) {
    CHECK_THAT(line, !Contains("GiB") && !Contains("Fits"));
  }
  CHECK(checked.warnings() == "");
}

}  // namespace
}  // namespace fsdp
