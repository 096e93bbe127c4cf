#include "tests/runner/experiment/corpus.h"

#include <catch2/catch.hpp>

#include "tests/runner/experiment/expanded_experiment.h"

// Tests the corpus, except errors in input files. tests/end_to_end gives all of it to the program.
namespace fsdp {

TEST_CASE("every malformed experiment is refused at its place, with words that help") {
  for (const std::string& name : corpus_names()) {
    if (name == "inputs.txt") continue;
    for (const MalformedExperiment& experiment : read_corpus(name)) {
      INFO(name << ": " << experiment.title);
      const std::string said = message(experiment.bytes);
      CHECK_THAT(said, Catch::StartsWith(experiment.place + ": "));
      for (const std::string& words : experiment.words) CHECK_THAT(said, Catch::Contains(words));
    }
  }
}

TEST_CASE("what cannot be a file of YAML is refused at once") {
  CHECK_THROWS_WITH(Experiment::load("/dev/zero"), Catch::StartsWith("/dev/zero: is larger than"));
  CHECK_THROWS_WITH(Experiment::load("/"),
                    Catch::StartsWith("/: is a folder; give an experiment's file"));
  CHECK_THROWS_WITH(Experiment::load("/nowhere/zzzz.yaml"),
                    Catch::StartsWith("/nowhere/zzzz.yaml: there is no such file"));
}

TEST_CASE("aliases, and line ends and a byte-order mark of Windows, are read") {
  CHECK(expanded("\xef\xbb\xbf"
                 "experiment: lab\r\nbase: {strategy: &s {kind: ddp, ranks: 2}}\r\n"
                 "points:\r\n  - {name: A}\r\n  - {name: B, strategy: *s}\r\n")
            .runs.at(1)
            .spec.strategy.ranks == 2);
  CHECK(expanded("experiment: lab\ntitle: 'it''s \"quoted\"'  # a comment's quote: \"\n")
            .runs.size() == 1);
  CHECK(expanded("experiment: \"a \\\" b\"\nbase: {\"train.seed\": 3, 'train.steps' : 4}\n")
            .runs.at(0)
            .spec.train.steps == 4);
  CHECK(expanded("experiment: lab\n   \n  # a comment\nbase:\t{train.max_steps: null,\n"
                 "       train.seed: 3}\n")
            .runs.size() == 1);
}

}  // namespace fsdp
