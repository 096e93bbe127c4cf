#include "runner/export/exported_run.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

RunStarted started(int64_t resumed_from_step) {
  RunStarted facts;
  facts.resumed_from_step = resumed_from_step;
  return facts;
}

StepDone step(int64_t number, double loss) {
  StepDone done;
  done.step = number;
  done.loss = loss;
  return done;
}

// Ingests events of rank 0, one per second.
void ingest(Store& store, int64_t run, int attempt, int64_t time_unix_ms,
            std::vector<decltype(Event::body)> bodies) {
  std::vector<Event> events;
  for (auto& body : bodies) {
    const auto sequence = std::ssize(events);
    events.push_back(event(sequence, time_unix_ms + 1'000 * sequence, std::move(body)));
  }
  store.ingest(run, attempt, 0, events);
}

std::vector<std::pair<int64_t, double>> figures(const std::vector<Moment>& moments,
                                                const std::string& name) {
  std::vector<std::pair<int64_t, double>> found;
  for (const Moment& moment : moments) {
    for (const auto& [figure, value] : moment.figures) {
      if (figure == name) found.emplace_back(moment.step, value);
    }
  }
  return found;
}

TEST_CASE_METHOD(StoreTest,
                 "a step takes as long as its slowest rank; memory is that of the rank with most") {
  const int64_t run = running_run(store, 2);
  StepDone slow = step(1, 5.0);
  slow.step_time_ms = 30;
  slow.communication_time_ms = 7;
  slow.memory_allocated_bytes_max = 10;
  slow.memory_reserved_bytes_max = 40;
  StepDone quick = step(1, 5.0);
  quick.step_time_ms = 20;
  quick.communication_time_ms = 17;
  quick.memory_allocated_bytes_max = 20;
  quick.memory_reserved_bytes_max = 30;
  store.ingest(run, 1, 0, std::vector{event(0, 1, started(0)), event(1, 2'000, quick)});
  store.ingest(run, 1, 1, std::vector{event(0, 1, started(0)), event(1, 2'500, slow)});
  const std::vector<Moment> moments = moments_of(store, run, 1);
  REQUIRE(moments.size() == 1);
  CHECK(moments[0].step == 1);
  CHECK(moments[0].time_unix_ms == 2'000);
  const std::vector<std::pair<std::string, double>> expected{{"train/loss", 5},
                                                             {"train/learning_rate", 0},
                                                             {"time/step_time_ms", 30},
                                                             {"time/communication_time_ms", 7},
                                                             {"memory/allocated_bytes_max", 20},
                                                             {"memory/reserved_bytes_max", 40}};
  CHECK(moments[0].figures == expected);
}

TEST_CASE_METHOD(
    StoreTest,
    "a curve goes on from the checkpoint; what came after it in earlier attempts is left out") {
  const int64_t run = running_run(store, 1);
  ingest(store, run, 1, 1'000, {started(0), step(1, 1.1), step(2, 1.2), step(3, 1.3)});
  store.begin_attempt(run, attempt_start());  // attempt 2 resumes from step 2, as 3 does
  ingest(store, run, 2, 10'000,
         {started(2), step(3, 2.3), EvaluationDone{.step = 3, .loss = 9, .token_accuracy = 0},
          step(4, 2.4)});
  store.begin_attempt(run, attempt_start());
  ingest(store, run, 3, 20'000, {started(2), step(3, 3.3)});
  store.begin_attempt(run, attempt_start());  // attempt 4 reports nothing
  store.begin_attempt(run, attempt_start());
  ingest(store, run, 5, 30'000, {started(3), step(4, 5.4)});
  using Figures = std::vector<std::pair<int64_t, double>>;
  CHECK(figures(moments_of(store, run, 5), "train/loss") ==
        Figures{{1, 1.1}, {2, 1.2}, {3, 3.3}, {4, 5.4}});
  CHECK(figures(moments_of(store, run, 2), "validation/loss") == Figures{{3, 9}});
  CHECK(figures(moments_of(store, run, 5), "validation/loss").empty());
  store.begin_attempt(run, attempt_start());
  ingest(store, run, 6, 40'000, {started(0), step(1, 6.1)});  // starts from the beginning
  CHECK(figures(moments_of(store, run, 6), "train/loss") == Figures{{1, 6.1}});
  store.begin_attempt(run, attempt_start());
  ingest(store, run, 7, 50'000, {started(4), step(5, 7.5)});  // resumes from attempt 5
  CHECK(figures(moments_of(store, run, 7), "train/loss") ==
        Figures{{1, 1.1}, {2, 1.2}, {3, 3.3}, {4, 5.4}, {5, 7.5}});
}

TEST_CASE_METHOD(StoreTest,
                 "a sample of a device is at the last step done by then; hosts are told apart") {
  const int64_t run = running_run(store, 1);
  DeviceSample sample;
  sample.host = "node1";
  sample.device = "gpu:0";
  sample.power_watts = 250;
  ingest(store, run, 1, 1'000, {started(0), sample, step(1, 1), step(2, 1), sample});
  using Figures = std::vector<std::pair<int64_t, double>>;
  CHECK(figures(moments_of(store, run, 1), "device/gpu:0/power_watts") ==
        Figures{{0, 250}, {2, 250}});
  CHECK(figures(moments_of(store, run, 1), "device/gpu:0/utilization_percent").empty());
  sample.host = "node2";
  store.ingest(run, 1, 0, std::vector{event(5, 6'000, sample)});
  CHECK(figures(moments_of(store, run, 1), "device/node2/gpu:0/power_watts") == Figures{{2, 250}});
}

TEST_CASE_METHOD(StoreTest, "what was not finite is left out of a curve") {
  const int64_t run = running_run(store, 1);
  StepDone lost = step(1, 0);
  lost.loss.reset();
  ingest(store, run, 1, 1'000, {started(0), lost, step(2, 1)});
  CHECK(figures(moments_of(store, run, 1), "train/loss").size() == 1);
  CHECK(moments_of(store, run, 1).size() == 2);
}

}  // namespace
}  // namespace fsdp
