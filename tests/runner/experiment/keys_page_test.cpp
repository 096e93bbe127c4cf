#include <catch2/catch.hpp>

#include "contract/spec/overrides.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {

TEST_CASE("the reference documents every key, its default and what it allows") {
  const std::string reference = experiment_reference();
  for (const RunSpecKey& key : run_spec_keys()) {
    INFO(key.name);
    CHECK_THAT(reference, Catch::Contains("\n  " + key.name + ": " + key.allowed + "; default: "));
  }
  CHECK_THAT(reference, Catch::Contains("  strategy.kind: single, ddp, fsdp; default: single\n"));
  CHECK_THAT(reference,
             Catch::Contains("  optimizer.learning_rate: a number, at least 0 and at "
                             "most 1000000; default: 2e-04\n      Step size, at its largest.\n"));
  CHECK_THAT(reference,
             Catch::Contains("  precision: a map, or in short the value of its first key\n"));
  CHECK_THAT(reference, Catch::Contains("  schedule: a map\n"));
  CHECK_THAT(reference, Catch::Contains("  resume: auto, never, a path, or null; default: null\n"));
  CHECK_THAT(reference,
             Catch::Contains("  slurm.modules: a list, each item one line of text; default: []\n"));
  CHECK_THAT(reference, Catch::Contains("  slurm.template: a path, or null; default: null\n"));
  CHECK_THAT(reference,
             Catch::Contains("  profiles.NAME.requires.gpus: an integer, at least 1 and at "
                             "most 100000\n"));
}

}  // namespace fsdp
