#include <catch2/catch.hpp>

#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

TEST_CASE_METHOD(StoreTest,
                 "ingesting the same events twice records them once, and later ones are added") {
  const int64_t run_id = running_run(store, 1);
  store.ingest(run_id, 1, 0, step_events(1, 10));
  store.ingest(run_id, 1, 0, step_events(1, 10));
  CHECK(count(results, "steps") == 10);
  store.ingest(run_id, 1, 0, step_events(8, 12));
  CHECK(count(results, "steps") == 12);
  store.ingest(run_id, 1, 0, std::vector{event(12, 12'000, step_done(99, 10))});
  CHECK(count(results, "steps") == 12);

  // The same holds for another process, which does not know what this one has read.
  Store(results.path()).ingest(run_id, 1, 0, step_events(1, 13));
  CHECK(count(results, "steps") == 13);
}

TEST_CASE_METHOD(StoreTest, "every value of a step is recorded under its key") {
  const int64_t run_id = running_run(store, 1);
  StepDone done;
  done.step = 7;
  done.non_finite = true;
  done.skipped = true;
  done.step_time_ms = 1.5;
  done.tokens = 2;
  done.label_count = 3;
  done.learning_rate = 1e-5;
  done.gradient_norm = 0.25;
  done.gradient_scale = 65536;
  done.memory_allocated_bytes_forward = 4;
  done.memory_reserved_bytes_forward = 5;
  done.memory_allocated_bytes_max = 6;
  done.memory_reserved_bytes_max = int64_t{1} << 40;
  store.ingest(run_id, 1, 0, std::vector{event(3, 99, done)});
  CHECK(sqlite3(results,
                "select run,attempt,rank,step,sequence,time_unix_ms,loss,non_finite,step_time_ms,"
                "tokens,label_count,learning_rate,gradient_norm,memory_allocated_bytes_forward,"
                "memory_reserved_bytes_forward,memory_allocated_bytes_max,"
                "memory_reserved_bytes_max,skipped,gradient_scale from steps") ==
        "1,1,0,7,3,99,NULL,1,1.5,2,3,1.0e-05,0.25,4,5,6,1099511627776,1,65536.0\n");
}

TEST_CASE_METHOD(StoreTest,
                 "evaluations, checkpoints and samples of devices are recorded once each") {
  const int64_t run_id = running_run(store, 1);
  const EvaluationDone evaluation{.step = 7,
                                  .loss = 1.5,
                                  .token_accuracy = 0.25,
                                  .label_count = 40,
                                  .evaluation_time_ms = 12.5};
  const CheckpointDone checkpoint{.step = 7,
                                  .path = "checkpoints/step-7",
                                  .size_bytes = int64_t{1} << 40,
                                  .write_time_ms = 250.5};
  DeviceSample gpu;
  gpu.host = "node1";
  gpu.device = "gpu:3";
  gpu.device_name = "a GPU";
  gpu.utilization_percent = 99.5;
  gpu.memory_used_bytes = 70;
  gpu.memory_total_bytes = 80;
  gpu.power_watts = 400.5;
  gpu.temperature_celsius = 60;
  gpu.sm_clock_mhz = 1410;
  gpu.memory_clock_mhz = 1593;
  DeviceSample processors;
  processors.device = "cpu";
  EvaluationDone bad = evaluation;
  bad.loss.reset();
  bad.non_finite = true;
  const EvaluationDone without_labels{.step = 9, .loss = {}, .token_accuracy = {}};
  const std::vector events{event(1, 10, evaluation), event(2, 20, checkpoint),
                           event(3, 30, gpu),        event(4, 30, processors),
                           event(5, 50, bad),        event(6, 60, without_labels)};
  store.ingest(run_id, 1, 0, events);
  store.ingest(run_id, 1, 0, events);
  CHECK(sqlite3(results,
                "select run,attempt,rank,sequence,time_unix_ms,step,loss,non_finite,"
                "token_accuracy,label_count,evaluation_time_ms from evaluations") ==
        "1,1,0,1,10,7,1.5,0,0.25,40,12.5\n1,1,0,5,50,7,NULL,1,0.25,40,12.5\n"
        "1,1,0,6,60,9,NULL,0,NULL,0,0.0\n");
  CHECK(sqlite3(results,
                "select run,attempt,rank,sequence,time_unix_ms,step,path,size_bytes,write_time_ms "
                "from checkpoints") == "1,1,0,2,20,7,checkpoints/step-7,1099511627776,250.5\n");
  CHECK(sqlite3(results,
                "select run,attempt,rank,sequence,time_unix_ms,host,device,device_name,"
                "utilization_percent,memory_used_bytes,memory_total_bytes,power_watts,"
                "temperature_celsius,sm_clock_mhz,memory_clock_mhz from device_samples") ==
        "1,1,0,3,30,node1,gpu:3,\"a GPU\",99.5,70,80,400.5,60.0,1410.0,1593.0\n"
        "1,1,0,4,30,\"\",cpu,\"\",NULL,NULL,NULL,NULL,NULL,NULL,NULL\n");
}

TEST_CASE_METHOD(StoreTest, "use of CPUs is recorded, and is a figure for another process too") {
  const int64_t run_id = running_run(store, 1);
  const CpuUse use{.cpus = "0-1",
                   .cpu_count = 2,
                   .measured_time_ms = 1000,
                   .cpu_time_ms = 500,
                   .cpus_busy_time_ms = 1500,
                   .run_queue_wait_time_ms = 250};
  store.ingest(run_id, 1, 0, std::vector{event(0, 10, use)});
  CHECK(sqlite3(results, "select * from cpu_uses") ==
        "1,1,0,0,10,0-1,2,1000.0,500.0,1500.0,250.0\n");
  Store(results.path()).ingest(run_id, 1, 0, step_events(1, 3));
  store.end_attempt(run_id, 1, RunStatus::kFinished, "", 2'000);
  const ComparisonRow row = store.comparison("lab").at(0);
  CHECK(row.cpu_time_others_percent.value() == Approx(50));
  CHECK(row.run_queue_wait_percent.value() == Approx(25));
}

TEST_CASE_METHOD(StoreTest, "the highest peak of memory on any rank is read with its uses") {
  const int64_t run_id = running_run(store, 2);
  CHECK_FALSE(store.memory_peak(run_id, 1));
  const auto peak = [](int64_t bytes) {
    MemoryPeak peak;
    peak.phase = "backward";
    peak.unit = 6;
    peak.memory_allocated_bytes_max = bytes;
    peak.by_use[MemoryUse::kParameters] = bytes - 1;
    peak.by_use[MemoryUse::kBatch] = 1;
    return peak;
  };
  store.ingest(run_id, 1, 0, std::vector{event(0, 10, peak(100)), event(1, 20, peak(300))});
  store.ingest(run_id, 1, 1, std::vector{event(0, 10, peak(200))});
  CHECK(store.memory_peak(run_id, 1) == peak(300));
}

TEST_CASE_METHOD(
    StoreTest,
    "an attempt that goes on from a checkpoint has its own times, and all losses of the run") {
  const int64_t run_id = running_run(store, 1);
  store.ingest(run_id, 1, 0, step_events(1, 10));
  const auto evaluated = [](int64_t step, double loss) {
    return EvaluationDone{.step = step, .loss = loss, .token_accuracy = 0.5};
  };
  store.ingest(run_id, 1, 0,
               std::vector{event(11, 0, evaluated(4, 5)), event(12, 0, evaluated(8, 2.5)),
                           event(13, 0, evaluated(10, 1))});  // after the checkpoint
  store.end_attempt(run_id, 1, RunStatus::kInterrupted, "asked to stop", 2'000);
  CHECK(store.begin_attempt(run_id, attempt_start()) == 2);
  RunStarted started;
  started.resumed_from_step = 8;
  std::vector<Event> events = step_events(9, 12);
  events.insert(events.begin(), event(0, 0, started));
  store.ingest(run_id, 2, 0, events);
  store.ingest(run_id, 2, 0,
               std::vector{event(13, 0, evaluated(12, 3.5)), event(14, 0, CheckpointDone{})});
  store.end_attempt(run_id, 2, RunStatus::kFinished, "", 3'000);
  const ComparisonRow row = store.comparison("lab").at(0);
  CHECK(row.attempt == 2);
  CHECK(row.resumed_from_step == 8);
  CHECK(row.steps == 4);
  CHECK(row.loss_first == 10.0);
  CHECK(row.loss_last == 10.0 / 12);
  CHECK(row.validation_loss_first == 5);
  CHECK(row.validation_loss_best == 2.5);
  CHECK(row.validation_loss_last == 3.5);
  CHECK(row.token_accuracy_last == 0.5);
  CHECK(row.checkpoint_write_time_ms_median == 0);
}

TEST_CASE_METHOD(StoreTest,
                 "a rank that was killed when it had just begun has lived until its only event") {
  const int64_t run_id = running_run(store, 1);
  Event begun = event(0, 5'000, RunStarted{});
  begun.elapsed_ms = 600;
  store.ingest(run_id, 1, 0, std::vector{begun});
  SECTION("seen by the runner that read the event") {
    store.end_attempt(run_id, 1, RunStatus::kFailed, "rank 0 was killed", 9'000);
  }
  SECTION("seen by another, when that runner was killed too") {
    Store next(results.path());
    next.end_attempt(run_id, 1, RunStatus::kInterrupted, "the runner was killed", 9'000);
  }
  CHECK(store.comparison("lab").at(0).total_time_ms == 600);
}

TEST_CASE_METHOD(StoreTest, "events of an attempt that was never begun are refused") {
  CHECK_THROWS_WITH(store.ingest(1, 1, 0, step_events(1, 1)),
                    Catch::Contains("results.sqlite: attempt 1 of run 1 was never begun"));
  CHECK(count(results, "steps") == 0);
}

}  // namespace
}  // namespace fsdp
