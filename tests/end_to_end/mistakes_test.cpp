#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/stub_runs.h"

// The mistakes of a student's first hour. Each has one message, which names the remedy.
namespace fsdp {
namespace {

struct Mistake {
  const char* what;
  std::vector<std::string> words;
  std::vector<const char*> told;
  int status = 2;
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> kMistakes{
      {"a file in another folder", {"check", "lab.yaml"}, {"did you mean 'experiments/lab.yaml'?"}},
      {"a file without its extension",
       {"check", "experiment"},
       {"did you mean 'experiment.yaml'?"}},
      {"an experiment's name as a command",
       {"lab"},
       {"'lab' is neither a file nor a command", "did you mean 'experiments/lab.yaml'?"}},
      {"a folder instead of a file",
       {"check", "experiments"},
       {"experiments: is a folder; give an experiment's file: experiments/lab.yaml"}},
      {"a file that nothing is like",
       {"check", "README.md"},
       {"there is no such file; experiments that exist: brace.yaml, colon.yaml, experiment.yaml, "
        "experiments/lab.yaml, tab.yaml"}},
      {"a file forgotten", {"check"}, {"FILE is required; see fsdp-run check --help"}},
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
       {"allowed: fp32, bf16_true", "did you mean 'bf16_true' or 'bf16_mixed'?"}},
      {"a point misspelled",
       {"check", "experiment.yaml", "--only", "frist"},
       {"did you mean 'first'? allowed: first, second"}},
      {"a profile that is not there",
       {"check", "experiment.yaml", "--profile", "cpux"},
       {"no such profile", "allowed: auto"}},
      {"a GPU where there is none",
       {"check", "experiment.yaml", "device=cuda"},
       {"3 ranks need 3 GPUs, but there are none", "allowed: device: cpu"}},
      {"data that are not there",
       {"check", "experiment.yaml", "data.train=data/moves.csv"},
       {"moves.csv: cannot be read: No such file or directory; of this path there is "}},
      {"data whose name is misspelled",
       {"check", "experiment.yaml", "data.train=gmaes.csv"},
       {"gmaes.csv: cannot be read", "did you mean '", "/games.csv'?"}},
      {"a model that is not there",
       {"check", "experiment.yaml", "--set", "model.source=../llama"},
       {"llama/config.json: cannot be read: No such file or directory; of this path there is "}},
      {"a batch that does not divide",
       {"check", "experiment.yaml", "--set", "batch.total=7"},
       {"does not divide into micro-batches", "the nearest that do: 12"}},
      {"one process for several ranks",
       {"check", "experiment.yaml", "--only", "first", "--set", "strategy.kind=single"},
       {"strategy.kind single is one process; allowed: 1"}},
      {"an override without its value",
       {"check", "experiment.yaml", "train.steps"},
       {"is not path=value, such as strategy.ranks=2"}},
      {"a command misspelled", {"reprot"}, {"did you mean 'report'?"}},
      {"a command misspelled before a file",
       {"chek", "experiment.yaml"},
       {"'chek' is neither a file nor a command; allowed: run, check, ", "did you mean 'check'?"}},
      {"a time in no unit",
       {"experiment.yaml", "--time-limit", "5x", "--trainer", STUB_TRAINER_PROGRAM},
       {"--time-limit"}},
      {"an option with another line", {"report", "--per_rank"}, {"did you mean '--per-rank'?"}},
      {"an option that is like none",
       {"status", "--xyz"},
       {"'--xyz' is not an option of fsdp-run status; see"}},
      {"an option misspelled",
       {"check", "experiment.yaml", "--prfile", "cpu"},
       {"'--prfile' is not an option of fsdp-run check; did you mean '--profile'?"}},
      {"a report before any run",
       {"report"},
       {"there is no results.sqlite in results; run an experiment first"}},
      {"a point without results",
       {"logs", "third", "--results", "held"},
       {"'third': names no run", "as `fsdp-run status --all` lists them"}},
      {"an experiment that has no results",
       {"report", "trail", "--results", "held"},
       {"in the results, which hold: trial; did you mean 'trial'?"}},
      {"a column misspelled",
       {"report", "--columns", "strategi", "--results", "held"},
       {"there is no column 'strategi'; `fsdp-run report --columns help` lists them"}},
      {"a brace not closed",
       {"check", "brace.yaml"},
       {"brace.yaml:2:7: not well-formed YAML: this '{' is not closed"}},
      {"a colon without its space",
       {"check", "colon.yaml"},
       {"colon.yaml:2:8: 'train.steps:5' has no ':' after it; allowed: KEY: VALUE"}},
      {"two points of one name",
       {"check", "twice.yaml"},
       {"twice.yaml:4:12: 'name': 'a' is already the name of the point at twice.yaml:3:12"}},
      {"a trainer that is not built",
       {"experiment.yaml", "--trainer", "none"},
       {"does not exist or cannot be executed; start runs with ./fsdp-run in the repository"},
       1},
      {"a GPU whose memory is not said",
       {"plan", "experiment.yaml", "--gpu", "a100", "--trainer", STUB_TRAINER_PROGRAM},
       {"is several GPUs; allowed: a100-80, a100-40"}},
  };
  return kMistakes;
}

TEST_CASE("plausible mistakes of a student end in one message that names the remedy") {
  const Workplace workplace(kTwoPoints);
  std::filesystem::create_directory(workplace / "experiments");
  std::filesystem::copy(workplace / "experiment.yaml", workplace / "experiments/lab.yaml");
  std::ofstream(workplace / "tab.yaml") << "experiment: a\nbase:\n\tdata: {kind: chess}\n";
  std::ofstream(workplace / "brace.yaml") << "experiment: a\nbase: {train.steps: 5\n";
  std::ofstream(workplace / "colon.yaml") << "experiment: a\nbase: {train.steps:5}\n";
  std::ofstream(workplace / "twice.yaml")
      << "experiment: a\npoints:\n  - {name: a}\n  - {name: a}\n";
  std::ofstream(workplace / "games.csv") << "";
  REQUIRE(workplace.run({"experiments/lab.yaml", "--results", "held"}).status == 0);
  REQUIRE(mistakes().size() >= 28);
  for (const auto& [what, words, told, status] : mistakes()) {
    INFO(what);
    std::vector<std::string> command{FSDP_RUN_PROGRAM};
    command.insert(command.end(), words.begin(), words.end());
    const Ended ended = Program(workplace / "", command).wait();
    CHECK(ended.status == status);
    CHECK_THAT(ended.errors, Catch::StartsWith("fsdp-run: "));
    CHECK(ended.errors.find("fsdp-run: ", 1) == std::string::npos);
    for (const char* text : told) CHECK_THAT(ended.errors, Catch::Contains(text));
  }
}

TEST_CASE("the mistakes of a file are told in one call, each once and with its line") {
  const Workplace workplace(kTwoPoints);
  std::ofstream(workplace / "many.yaml") << R"(experiment: a
titel: A
base: {lr: 1, train: {steps: four, epcohs: 1}}
points:
  - {name: b, bs: 2}
  - {name: b}
profiles:
  p: {set: {devise: cpu}}
)";
  const Ended ended =
      Program(workplace / "", {FSDP_RUN_PROGRAM, "check", "many.yaml", "--set", "x=1"}).wait();
  CHECK(ended.status == 2);
  for (const char* told :
       {"many.yaml:2:1: 'titel'", "many.yaml:3:8: 'lr'", "many.yaml:3:30: 'train.steps'",
        "many.yaml:3:36: 'train.epcohs'", "many.yaml:5:15: 'bs'", "many.yaml:8:13: 'devise'"}) {
    CHECK_THAT(ended.errors, Catch::Contains(told));
  }
  const Ended of_runs = Program(workplace / "", {FSDP_RUN_PROGRAM, "check", "experiment.yaml",
                                                 "--set", "batch.total=7", "--set", "lr=1"})
                            .wait();
  CHECK_THAT(of_runs.errors, Catch::Contains("'lr'") && !Catch::Contains("'batch.total'"));
}

TEST_CASE("results that are a folder further up are named") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  std::filesystem::create_directory(workplace / "notes");
  const Ended ended = Program(workplace / "notes", {FSDP_RUN_PROGRAM, "report"}).wait();
  CHECK(ended.status == 2);
  CHECK_THAT(ended.errors, Catch::Contains("did you mean --results ../results?"));
}

}  // namespace
}  // namespace fsdp
