#include <catch2/catch.hpp>

#include "base/text/json.h"
#include "tests/runner/store/store_fixture.h"

// A store updates its figures with each event. They must equal the figures of all recorded events.
namespace fsdp {
namespace {

// Returns the events of one of two ranks: 40 steps, with everything that a rank may report.
std::vector<Event> events_of(int rank) {
  std::vector<Event> events;
  const auto report = [&](decltype(Event::body) body) {
    const int64_t sequence = std::ssize(events);
    events.push_back(event(sequence, 1'000 + 100 * sequence, std::move(body)));
  };
  RunStarted started;
  started.host = "node1";
  started.gpu = "gpu:" + std::to_string(rank);
  report(started);
  for (int64_t step = 1; step <= 40; ++step) {
    StepDone done = step_done(step, static_cast<double>((7 * step + 3 * rank) % 23));
    done.communication_time_ms = static_cast<double>((5 * step + rank) % 11);
    done.skipped = step % 9 == 0;
    done.memory_allocated_bytes_forward = 50 * ((step * (rank + 2)) % 17);
    report(done);
    DeviceSample sample;
    sample.host = "node1";
    sample.device = "gpu:" + std::to_string(step % 2);
    sample.utilization_percent = static_cast<double>(step);
    sample.power_watts = static_cast<double>(100 + step);
    if (rank == 0 && step % 3 == 0) report(sample);
    if (step % 10 == 0)
      report(EvaluationDone{
          .step = step, .loss = 1.0 / static_cast<double>(step), .token_accuracy = 0});
    if (rank == 0 && step % 20 == 0) {
      report(CheckpointDone{.step = step, .path = "x", .write_time_ms = static_cast<double>(step)});
    }
  }
  report(RunFinished{.steps = 40});
  return events;
}

std::vector<std::vector<Event>> part(const std::vector<std::vector<Event>>& events, size_t begin,
                                     size_t end) {
  std::vector<std::vector<Event>> parts;
  for (const std::vector<Event>& all : events) {
    const auto at = [&](size_t i) {
      return all.begin() + static_cast<ptrdiff_t>(std::min(i, all.size()));
    };
    parts.emplace_back(at(begin), at(end));
  }
  return parts;
}

std::string recorded(const Store& store) {
  std::string text;
  append_json(text, store.comparison("lab").at(0));
  for (const RankRow& rank : store.comparison_per_rank("lab")) append_json(text, rank);
  return text;
}

// Returns the records of a store that gets all events at once.
std::string expected(const std::vector<std::vector<Event>>& events) {
  const ResultsFolder results;
  Store store(results.path());
  const int64_t run_id = running_run(store, 2);
  store.ingest(run_id, 1, events);
  store.end_attempt(run_id, 1, RunStatus::kFinished, "", 9'000);
  const std::string text = recorded(store);
  REQUIRE_THAT(text, Catch::Contains("\"energy_joules\":1161") &&
                         Catch::Contains("\"communication_time_ms_median\":"));
  return text;
}

TEST_CASE("figures do not depend on how events were divided, nor on which process recorded them") {
  const std::vector<std::vector<Event>> events{events_of(0), events_of(1)};
  const std::string whole = expected(events);
  for (const size_t size : {1, 7, 20}) {
    const ResultsFolder results;
    Store first(results.path());
    Store second(results.path());
    const int64_t run_id = running_run(first, 2);
    for (size_t begin = 0; begin < events[0].size(); begin += size) {
      Store& store = begin / size % 3 == 1 ? second : first;
      store.ingest(run_id, 1, part(events, begin, begin + size));
    }
    second.end_attempt(run_id, 1, RunStatus::kFinished, "", 9'000);
    CHECK(recorded(first) == whole);
  }
}

TEST_CASE("what was rolled back is in no figure") {
  const std::vector<std::vector<Event>> events{events_of(0), events_of(1)};
  const ResultsFolder results;
  Store store(results.path());
  const int64_t run_id = running_run(store, 2);
  store.ingest(run_id, 1, part(events, 0, 10));
  {
    const Store::Batch rolled_back(store);
    store.ingest(run_id, 1, part(events, 10, 30));
  }
  store.ingest(run_id, 1, part(events, 10, 20));
  store.ingest(run_id, 1, part(events, 20, 1'000));
  store.end_attempt(run_id, 1, RunStatus::kFinished, "", 9'000);
  CHECK(recorded(store) == expected(events));
}

TEST_CASE_METHOD(StoreTest,
                 "figures of a long running attempt lag behind by a small part of its events") {
  const int64_t run_id = running_run(store, 1);
  const Store::Batch quick(store);
  for (int64_t step = 1; step <= 1'000; ++step) {
    store.ingest(run_id, 1, 0, step_events(step, step));
    const int64_t shown = store.comparison("lab").at(0).steps.value();
    REQUIRE(shown <= step);
    REQUIRE(shown >= step - step / 60 - 1);
  }
  store.end_attempt(run_id, 1, RunStatus::kFinished, "", 9'000);
  CHECK(store.comparison("lab").at(0).steps == 1'000);
}

TEST_CASE("MFU is of the peak in the type that the run's specification computes in") {
  const auto mfu_percent = [](const auto& set_precision) {
    const ResultsFolder results;
    Store store(results.path());
    std::vector runs{planned_run("point", 1)};
    PrecisionSpec precision;
    set_precision(precision);
    runs.front().spec.precision = precision;
    const int64_t run_id = store.plan(experiment("lab"), runs).front().id;
    store.begin_attempt(run_id, attempt_start());
    RunStarted started;
    started.device_name = "NVIDIA A100-SXM4-80GB";
    StepDone done = step_done(1, 1'000);
    done.model_flops = done.hardware_flops = 3.9e12;
    store.ingest(
        run_id, 1, 0,
        std::vector{event(0, 0, started), event(1, 1'000, done), event(2, 1'000, RunFinished{})});
    return store.comparison("lab").at(0).mfu_percent.value();
  };
  CHECK(mfu_percent([](auto&) {}) == Approx(100 * 3.9 / 19.5));
  CHECK(mfu_percent([](auto& own) { own.kind = PrecisionKind::kFp16Mixed; }) ==
        Approx(100 * 3.9 / 312));
  CHECK(mfu_percent([](auto& own) { own.kind = PrecisionKind::kBf16True; }) ==
        Approx(100 * 3.9 / 312));
  CHECK(mfu_percent([](auto& own) { own.parameters = Dtype::kBf16; }) == Approx(100 * 3.9 / 312));
  CHECK(mfu_percent([](auto& own) { own.reduction = Dtype::kBf16; }) == Approx(100 * 3.9 / 19.5));
  CHECK(mfu_percent([](auto& own) { own.buffers = Dtype::kBf16; }) == Approx(100 * 3.9 / 19.5));
}

}  // namespace
}  // namespace fsdp
