#include <catch2/catch.hpp>

#include "runner/store/store.h"
#include "tests/end_to_end/real_runs.h"

// A run that is lengthened goes on from where it ended, with `resume: auto`.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

const std::string kPoint = "  - {name: one, checkpoint.at_end: true, resume: auto}\n";

ComparisonRow row(const Workplace& workplace) {
  return Store(workplace.results()).comparison("trial").at(0);
}

Ended train(const Workplace& workplace, const std::string& steps,
            std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"experiment.yaml", "--set", "train.steps=" + steps});
  Ended ended = workplace.run(arguments);
  INFO(ended.errors);
  REQUIRE(ended.status == 0);
  return ended;
}

}  // namespace

TEST_CASE("more train.steps go on from the checkpoint of fewer, to the loss of a whole run") {
  const Workplace workplace(kPoint, kTinyRun, FSDP_TRAIN_PROGRAM);
  const Workplace whole(kPoint, kTinyRun, FSDP_TRAIN_PROGRAM);
  train(whole, "6");
  train(workplace, "4");
  CHECK_THAT(train(workplace, "6").errors,
             Contains("one: goes on from step 4 of the run of 4 steps"));
  CHECK(row(workplace).resumed_from_step == 4);
  CHECK(row(workplace).steps == 2);
  CHECK(row(workplace).status == RunStatus::kFinished);
  CHECK(row(workplace).loss_last == row(whole).loss_last);

  SECTION("the shorter run keeps its checkpoint") {
    const auto folder = row(workplace).folder;
    train(workplace, "4");
    CHECK(std::filesystem::exists(workplace.results() / row(workplace).folder /
                                  "checkpoints/step-4/trainer.json"));
    CHECK(row(workplace).folder != folder);
  }
  SECTION("--rerun begins anew") {
    train(workplace, "6", {"--rerun"});
    CHECK(row(workplace).resumed_from_step == 0);
    CHECK(row(workplace).loss_last == row(whole).loss_last);
  }
}

TEST_CASE("a schedule that depends on the run's length begins anew, unless it has its own") {
  const std::string cosine = kPoint.substr(0, kPoint.size() - 2) + ", schedule.kind: cosine";
  SECTION("to the end of the run") {
    const Workplace workplace(cosine + "}\n", kTinyRun, FSDP_TRAIN_PROGRAM);
    train(workplace, "4");
    CHECK_THAT(train(workplace, "6").errors,
               Contains("one: begins anew, not from step 4") && Contains("schedule.decay_steps"));
    CHECK(row(workplace).resumed_from_step == 0);
  }
  SECTION("to a step of its own") {
    const Workplace workplace(cosine + ", schedule.decay_steps: 8}\n", kTinyRun,
                              FSDP_TRAIN_PROGRAM);
    train(workplace, "4");
    train(workplace, "6");
    CHECK(row(workplace).resumed_from_step == 4);
  }
}
