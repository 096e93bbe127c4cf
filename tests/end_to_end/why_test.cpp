#include <catch2/catch.hpp>

#include "tests/end_to_end/stub_runs.h"

// fsdp-run why; tests/why/ has real runs
using namespace fsdp;
using Catch::Matchers::Contains;

TEST_CASE("why says that a run of an older version has no account") {
  const Workplace workplace("  - {name: one}\n");
  CHECK(workplace.run().status == 0);
  const Ended ended = workplace.call({"why", "one"});
  CHECK(ended.status == 0);
  CHECK(ended.output ==
        "one has no account of its steps: an older version ran it, or train.account_steps is 0\n"
        "one has no record of what used its memory\n\n"
        "What would help: `fsdp-run plan FILE --suggest` with the experiment's file.\n");
}

TEST_CASE("why refuses a run without a measured step, and an unknown word") {
  const Workplace workplace("  - {name: one}\n");
  CHECK(workplace.run({"experiment.yaml"}, {{"STUB_RULES", "step=1,fail=no step"}}).status == 1);
  const Ended refused = workplace.call({"why", "one"});
  CHECK(refused.status == 2);
  CHECK_THAT(refused.errors, Contains("has not measured a step"));
  CHECK_THAT(workplace.call({"why", "oen"}).errors, Contains("did you mean 'one'?"));
}
