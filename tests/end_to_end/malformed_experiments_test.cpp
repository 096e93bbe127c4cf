#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/program.h"
#include "tests/runner/experiment/corpus.h"

using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

// tests/runner/experiment/ reads the whole corpus but for errors in input files.
TEST_CASE("fsdp-run refuses malformed experiments of every kind, and shows the line") {
  size_t count = 0;
  for (const std::string& name : corpus_names()) {
    std::vector<MalformedExperiment> experiments = read_corpus(name);
    if (name != "inputs.txt") experiments.resize(2);
    for (const MalformedExperiment& experiment : experiments) {
      INFO(name << ": " << experiment.title);
      const TemporaryFolder folder;
      folder.write("lab.yaml", experiment.bytes);
      const Ended ended =
          Program(folder.path(), {FSDP_RUN_PROGRAM, "lab.yaml", "--dry-run"}).wait();
      CHECK(ended.status == 2);
      CHECK(ended.output.empty());
      CHECK_THAT(ended.errors, StartsWith("fsdp-run: " + experiment.place + ": "));
      for (const std::string& words : experiment.words) {
        CHECK_THAT(folder.without_folder(ended.errors), Contains(words));
      }
      const bool has_line = experiment.place != "lab.yaml";
      CHECK(ended.errors.ends_with("^\n") == has_line);
      ++count;
    }
  }
  CHECK(count >= 25);
}
