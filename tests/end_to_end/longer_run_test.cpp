#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

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

std::set<std::string> checkpoints(const Workplace& workplace) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(
           workplace.results() / row(workplace).folder / "checkpoints")) {
    names.insert(entry.path().filename());
  }
  return names;
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
  CHECK(row(workplace).loss_first == row(whole).loss_first);
  CHECK_THAT(workplace.call({"explain", "one"}).output,
             Contains("resumed from step 4 of runs/trial/one-"));

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

TEST_CASE("a longer run has the evaluations and the best checkpoint of what it continues") {
  const std::string point =
      "  - {name: one, checkpoint: {at_end: true, when_improved: true, keep: 1}, resume: auto, "
      "evaluation: {every_steps: 2, fraction: 0.5, batches: 2}, "
      "optimizer: {kind: sgd, learning_rate: 3}}\n";
  const Workplace workplace(point, kTinyRun, FSDP_TRAIN_PROGRAM);
  const Workplace whole(point, kTinyRun, FSDP_TRAIN_PROGRAM);
  train(whole, "8");
  for (const char* steps : {"4", "6", "8"}) train(workplace, steps);
  CHECK(row(workplace).resumed_from_step == 6);
  CHECK(row(workplace).loss_first == row(whole).loss_first);
  CHECK(row(workplace).validation_loss_first == row(whole).validation_loss_first);
  CHECK(row(workplace).validation_loss_best == row(whole).validation_loss_best);
  CHECK(checkpoints(workplace) == checkpoints(whole));
}

TEST_CASE("a longer run whose checkpoints cannot be taken over begins anew and says why") {
  const Workplace whole(kPoint, kTinyRun, FSDP_TRAIN_PROGRAM);
  train(whole, "6");
  const Workplace workplace(kPoint, kTinyRun, FSDP_TRAIN_PROGRAM);
  std::filesystem::create_directories(workplace.results() / row(whole).folder /
                                      "checkpoints/step-3.partial");
  train(workplace, "4");
  CHECK_THAT(train(workplace, "6").errors,
             Contains("one: begins anew, not from step 4") && Contains("not empty"));
  CHECK(row(workplace).steps == 6);
  CHECK(row(workplace).loss_first == row(whole).loss_first);
}

TEST_CASE("damaged checkpoints that were taken over fail the run, which without them begins anew") {
  const Workplace workplace(kPoint, kTinyRun, FSDP_TRAIN_PROGRAM);
  train(workplace, "4");
  const auto weights =
      workplace.results() / row(workplace).folder / "checkpoints/step-4/model.safetensors";
  std::fstream(weights, std::ios::in | std::ios::out).seekp(-1, std::ios::end).put('!');
  const std::vector<std::string> longer{"experiment.yaml", "--set", "train.steps=6"};
  CHECK(workplace.run(longer).status == 1);
  CHECK_THAT(row(workplace).reason, Contains("move the folder away"));
  std::filesystem::remove_all(workplace.results() / row(workplace).folder / "checkpoints");
  CHECK(workplace.run(longer).status == 0);
  CHECK(row(workplace).steps == 6);
}

TEST_CASE("a run that train.max_steps ends as early is not longer") {
  const Workplace workplace(kPoint.substr(0, kPoint.size() - 2) + ", train.max_steps: 4}\n",
                            kTinyRun, FSDP_TRAIN_PROGRAM);
  train(workplace, "6");
  train(workplace, "8");
  CHECK(row(workplace).steps == 4);
}

TEST_CASE("a longer repeat continues the shorter one of its number") {
  const Workplace workplace(kPoint + "sweep: {product: {train.steps: [2, 4]}, repeats: 2}\n",
                            kTinyRun, FSDP_TRAIN_PROGRAM);
  CHECK(workplace.run({"experiment.yaml"}).status == 0);
  Store store(workplace.results());
  std::map<std::string, int64_t> repeats;
  for (const RunRecord& run : store.runs()) repeats[run.folder] = run.repeat;
  size_t longer = 0;
  for (const RunRecord& run : store.runs()) {
    const auto continues = store.attempts(run.id).front().continues;
    if (!continues) continue;
    CHECK(repeats.at(*continues) == run.repeat);
    ++longer;
  }
  CHECK(longer == 2);
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
