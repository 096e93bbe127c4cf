#include "runner/progress.h"

#include <catch2/catch.hpp>

using namespace fsdp;

namespace {

Event step(int64_t number, double step_time_ms, int64_t memory_bytes) {
  StepDone done;
  done.step = number;
  done.loss = 2.5;
  done.step_time_ms = step_time_ms;
  done.memory_allocated_bytes_max = memory_bytes;
  return {.body = done};
}

}  // namespace

TEST_CASE("a run's figures come from its ranks' events") {
  RunProgress progress("4xDDP", 100);
  CHECK(progress.figures() == "starting");
  progress.add(std::vector<std::vector<Event>>{{step(1, 500, 10 << 20), step(2, 500, 10 << 20)},
                                               {step(1, 500, 12 << 20)}});
  CHECK(progress.figures() == "2/100  loss 2.5000  2 it/s  12.0 MiB");
  CHECK(progress.time_left() == "  49s left");
}

TEST_CASE("a loss that is not finite is said to be so") {
  RunProgress progress("run", 1);
  Event event = step(1, 500, 0);
  std::get<StepDone>(event.body).loss.reset();
  progress.add(std::vector<std::vector<Event>>{{event}});
  CHECK(progress.figures() == "1/1  loss not finite  2 it/s  0.0 MiB");
}

TEST_CASE("what is noteworthy among a rank's events has lines of its own") {
  RunStarted started;
  CHECK(noteworthy("lab", std::vector<Event>{{.body = started}, step(1, 10, 0)}).empty());
  started.resumed_from_step = 20;
  started.warning = "the data is not read to its end";
  EvaluationDone evaluation{.step = 25, .loss = 1.23456, .token_accuracy = 0.3124};
  EvaluationDone not_finite{.step = 30, .loss = {}, .non_finite = true};
  CheckpointDone checkpoint{
      .step = 30, .path = "checkpoints/step-30", .size_bytes = 12 << 20, .write_time_ms = 2'345};
  CHECK(noteworthy("lab", std::vector<Event>{{.body = started},
                                             {.body = evaluation},
                                             {.body = not_finite},
                                             {.body = checkpoint}}) ==
        std::vector<std::string>{"lab: resumed from step 20",
                                 "lab: warning: the data is not read to its end",
                                 "lab: step 25  validation loss 1.2346  accuracy 31.2 %",
                                 "lab: step 30  validation loss not finite  accuracy 0.0 %",
                                 "lab: step 30  checkpoint checkpoints/step-30  12.0 MiB  2.3 s"});
}

TEST_CASE("a progress line fits the terminal, cuts the name, and shows no control characters") {
  RunProgress progress("a point\nwith a long n\xC3\xA4me, longer than the line", 100);
  progress.add(std::vector<std::vector<Event>>{{step(1, 500, 1 << 20)}});
  const std::string line = progress_line(progress, 64);
  CHECK(line.starts_with("a point?with"));
  CHECK(line.ends_with("left"));
  CHECK(line.size() == 64);
  CHECK(progress_line(progress, 20).size() == 20);
}

TEST_CASE("durations are short") {
  CHECK(duration_text(0.4) == "0s");
  CHECK(duration_text(185) == "3m 05s");
  CHECK(duration_text(7500) == "2h 05m");
}
