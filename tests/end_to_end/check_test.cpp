#include <catch2/catch.hpp>
#include <sstream>

#include "tests/end_to_end/stub_runs.h"

// Tests the output of `fsdp-run check`, which starts nothing.
namespace fsdp {
namespace {

using Catch::Matchers::Contains;

std::string check(const Workplace& workplace, std::vector<std::string> words = {},
                  const Variables& environment = {}) {
  std::vector<std::string> command{FSDP_RUN_PROGRAM, "check", "experiment.yaml", "--trainer",
                                   "/nowhere/fsdp-train"};
  command.insert(command.end(), words.begin(), words.end());
  const Ended ended = Program(workplace / "", command, environment).wait();
  REQUIRE(ended.status == 0);
  return ended.output;
}

std::string in_words(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

TEST_CASE("check shows what every run will do") {
  const Workplace workplace(kTwoPoints);
  const std::string said = check(workplace, {"train.steps=20"});
  CHECK_THAT(said, Contains("experiment.yaml: 2 runs, no mistake found\n"));
  CHECK_THAT(said, Contains("\nfirst   ddp"));
  CHECK_THAT(in_words(said), Contains("Memory, whether runs fit, and the size of checkpoints are "
                                      "not known: the trainer /nowhere/fsdp-train does not exist"));
  CHECK_THAT(said, !Contains("[GiB]"));
  const std::string equal = check(workplace, {"batch.total=24", "batch.size_per_rank=4"});
  CHECK_THAT(equal, Contains("\nEach run: 120 sequences, ") && !Contains("Sequences"));
}

TEST_CASE("check warns of what will make runs less than they look") {
  const Workplace workplace(kTwoPoints);
  const std::string said = in_words(check(workplace));
  CHECK_THAT(said,
             Contains("warning: total batches differ (8: second; 12: first), so losses cannot "
                      "be compared; give all runs one batch.total"));
  CHECK_THAT(in_words(check(workplace, {"strategy.ranks=64"})),
             Contains("second [strategy.ranks=64]: more ranks than this host's"));
  CHECK_THAT(in_words(check(workplace, {"train.steps=4"})),
             Contains("step times will be based on fewer than 4 steps after the warm-up; raise"));
}

TEST_CASE("check, a dry run and a run say which keys of base have no effect") {
  const Workplace workplace(
      kTwoPoints,
      "{train.steps: 5, device: cpu}\nprofiles: {any: {set: {train.steps: 6, device: cpu}}}");
  const std::string sentence =
      "warning: base's train.steps: 5 (experiment.yaml:2:21) has no effect: profile any sets 6 "
      "(experiment.yaml:3:37)";
  CHECK_THAT(in_words(check(workplace)), Contains(sentence) && !Contains("base's device"));
  CHECK_THAT(workplace.run({"experiment.yaml", "--dry-run"}).output, Contains("# " + sentence));
  const Ended ended = workplace.run();
  CHECK(ended.status == 0);
  CHECK_THAT(ended.errors, Contains(sentence));
}

TEST_CASE("check on a cluster says what jobs will ask for") {
  const Workplace workplace(kTwoPoints);
  const std::string said =
      in_words(check(workplace, {"--launcher", "slurm", "slurm.time=01:00:00", "slurm.nodes=1"}));
  CHECK_THAT(said, Contains("Slurm: 2 jobs in 2 arrays: 1 task on 1 node with 3 ranks, each for at "
                            "most 01:00:00; 1 task on 1 node with 2 ranks"));
  CHECK_THAT(in_words(check(workplace, {"--launcher", "slurm", "slurm.mode=allocation"})),
             Contains("Slurm: one job for all runs, 1 node with 3 ranks"));
}

}  // namespace
}  // namespace fsdp
