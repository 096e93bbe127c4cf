#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/stub_runs.h"

// What a student may do wrong in a first hour: each is told in one message that names the remedy.
namespace fsdp {
namespace {

struct Mistake {
  const char* what;
  std::vector<std::string> words;
  std::vector<const char*> told;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> kMistakes{
      {"a file in another folder", {"check", "lab.yaml"}, {"did you mean 'experiments/lab.yaml'?"}},
      {"a file without its extension",
       {"check", "experiment"},
       {"did you mean 'experiment.yaml'?"}},
      {"a key misspelled",
       {"check", "experiment.yaml", "batch.size_per_rnk=2"},
       {"'batch.size_per_rnk': unknown key", "did you mean 'size_per_rank'?"}},
      {"a tab in the file",
       {"check", "tab.yaml"},
       {"tab.yaml:3:1: a tab indents this line; allowed: spaces"}},
      {"a word where a number stands",
       {"check", "experiment.yaml", "--set", "train.steps=four"},
       {"'four' is not an integer; allowed: an integer, at least 1"}},
      {"a value cut short",
       {"check", "experiment.yaml", "--set", "precision=bf16"},
       {"allowed: fp32, bf16_true", "did you mean 'bf16_true'?"}},
      {"a point misspelled",
       {"check", "experiment.yaml", "--only", "frist"},
       {"allowed: first, second; did you mean 'first'?"}},
      {"a profile that is not there",
       {"check", "experiment.yaml", "--profile", "cpux"},
       {"no such profile", "allowed: auto"}},
      {"a GPU where there is none",
       {"check", "experiment.yaml", "device=cuda"},
       {"3 ranks need 3 GPUs, but there are 0", "allowed: device: cpu"}},
      {"data that are not there",
       {"check", "experiment.yaml", "data.train=games.csv"},
       {"games.csv: cannot be read: No such file or directory"}},
      {"a model that is not there",
       {"check", "experiment.yaml", "--set", "model.source=../llama"},
       {"llama/config.json: cannot be read: No such file or directory"}},
      {"a batch that does not divide",
       {"check", "experiment.yaml", "--set", "batch.total=7"},
       {"does not divide into micro-batches", "the nearest that do: 12"}},
      {"one process for several ranks",
       {"check", "experiment.yaml", "--set", "strategy.kind=single"},
       {"strategy.kind single is one process; allowed: 1"}},
      {"an override without its value",
       {"check", "experiment.yaml", "train.steps"},
       {"is not path=value, such as strategy.ranks=2"}},
      {"a command misspelled", {"reprot"}, {"did you mean 'report'?"}},
      {"an option misspelled",
       {"check", "experiment.yaml", "--prfile", "cpu"},
       {"'--prfile' is no option of fsdp-run check; did you mean '--profile'?"}},
      {"a report before any run",
       {"report"},
       {"there is no results.sqlite in results; run an experiment first"}},
      {"a GPU whose memory is not said",
       {"plan", "experiment.yaml", "--gpu", "a100", "--trainer", STUB_TRAINER_PROGRAM},
       {"allowed: a100-80", "did you mean 'a100-80'?"}},
  };
  return kMistakes;
}

TEST_CASE("plausible mistakes of a student end in one message that names the remedy") {
  const Workplace workplace(kTwoPoints);
  std::filesystem::create_directory(workplace / "experiments");
  std::filesystem::copy(workplace / "experiment.yaml", workplace / "experiments/lab.yaml");
  std::ofstream(workplace / "tab.yaml") << "experiment: a\nbase:\n\tdata: {kind: chess}\n";
  REQUIRE(mistakes().size() >= 15);
  for (const auto& [what, words, told] : mistakes()) {
    INFO(what);
    std::vector<std::string> command{FSDP_RUN_PROGRAM};
    command.insert(command.end(), words.begin(), words.end());
    const Ended ended = Program(workplace / "", command).wait();
    CHECK(ended.status == 2);
    CHECK_THAT(ended.errors, Catch::StartsWith("fsdp-run: "));
    CHECK(ended.errors.find("fsdp-run: ", 1) == std::string::npos);
    for (const char* text : told) CHECK_THAT(ended.errors, Catch::Contains(text));
  }
}

}  // namespace
}  // namespace fsdp
