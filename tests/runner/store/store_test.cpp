#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "runner/store/database.h"
#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

TEST_CASE("an empty folder gets the schema, and opening it again keeps everything") {
  const ResultsFolder results;
  { running_run(*std::make_unique<Store>(results.path() / "."), 1); }
  Database database(results.database());
  CHECK(Statement(database, "pragma user_version").value<int>() == 4);
  CHECK(Statement(database, "pragma foreign_keys").value<int>() == 1);
  CHECK(Statement(database, "pragma journal_mode").value<std::string>() == "truncate");
  Store again(results.path());
  CHECK(again.comparison("lab").size() == 1);
}

TEST_CASE_METHOD(StoreTest, "a batch that is lost in the index is still in the files") {
  const int64_t run = running_run(store, 1);
  {
    Store::Batch lost(store);
    store.end_attempt(run, 1, RunStatus::kFinished, "", 5'000);
    store.begin_attempt(run, attempt_start());
    CHECK(count(results, "attempts where status = 'running'") == 1);  // for other connections
  }
  CHECK(count(results, "attempts") == 1);
  CHECK(count(results, "attempts where status = 'running'") == 1);
  store.sync();
  CHECK(count(results, "attempts where status = 'finished'") == 1);
  CHECK(count(results, "attempts where status = 'running'") == 1);
  store.end_attempt(run, 2, RunStatus::kFinished, "", 6'000);  // a transaction of its own again
  CHECK(count(results, "attempts where status = 'finished'") == 2);
}

TEST_CASE("a database of a newer version is refused and left as it is") {
  const ResultsFolder results;
  { const Store store(results.path()); }
  Database(results.database()).execute("pragma user_version = 99");
  CHECK_THROWS_WITH(Store(results.path()), Catch::Contains("results.sqlite: schema version 99") &&
                                               Catch::Contains("--results"));
  Database database(results.database());
  CHECK(Statement(database, "pragma user_version").value<int>() == 99);
}

TEST_CASE("a file that is not a database is refused by name") {
  const ResultsFolder results;
  std::ofstream(results.database()) << "This is no database, whatever its name says.\n";
  CHECK_THROWS_WITH(Store(results.path()),
                    Catch::Contains("results.sqlite") && Catch::Contains("move it away"));
}

TEST_CASE_METHOD(StoreTest, "planning again keeps what was recorded and renews the current list") {
  const auto first = in_order({planned_run("a", 1), planned_run("b", 1), planned_run("c", 2)});
  const auto before = store.plan(experiment("lab"), first);
  REQUIRE(before.size() == 3);
  CHECK(before[2].status == RunStatus::kPlanned);
  CHECK(before[2].attempt == 0);
  const int attempt = store.begin_attempt(before[2].id, attempt_start());
  CHECK(attempt == 1);
  store.end_attempt(before[2].id, attempt, RunStatus::kFailed, "rank 1 killed by signal 9", 5'000,
                    1);

  const auto second =
      in_order({planned_run("c", 2), planned_run("a", 1, "another hash"), planned_run("a", 1)});
  const auto after = store.plan(experiment("lab"), second);
  REQUIRE(after.size() == 3);
  CHECK(after[0].id == before[2].id);
  CHECK(after[0].status == RunStatus::kFailed);
  CHECK(after[0].reason == "rank 1 killed by signal 9");
  CHECK(after[0].attempt == 1);
  CHECK(after[1].id != before[0].id);
  CHECK(after[2].id == before[0].id);
  CHECK(count(results, "runs") == 4);

  const auto rows = store.comparison("lab");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].point == "c");
  CHECK(rows[0].reason_rank == 1);
  CHECK(rows[1].hash8 == "another ");
  CHECK_FALSE(rows[1].attempt);
  CHECK(store.comparison("another experiment").empty());

  const auto ever = store.comparison("lab", Listed::kEver);
  REQUIRE(ever.size() == 4);
  CHECK(std::ranges::count(ever, false, &ComparisonRow::current) == 1);
  CHECK(std::ranges::find(ever, false, &ComparisonRow::current)->run == before[1].id);
  CHECK(store.comparison_per_rank("lab").size() == 3);
  CHECK(store.comparison_per_rank("lab", Listed::kEver).size() == 4);
}

TEST_CASE_METHOD(StoreTest, "the file that an experiment was last planned from is known") {
  CHECK_FALSE(store.experiment_file("lab"));
  store.plan(experiment("lab"), {});
  CHECK(store.experiment_file("lab") == "lab.yaml");
}

TEST_CASE_METHOD(StoreTest, "the experiments that were ever planned are listed by name") {
  CHECK(store.experiments().empty());
  ExperimentRecord sweep = experiment("sweep");
  sweep.title = "A sweep";
  sweep.compare = "throughput";
  store.plan(sweep, {});
  store.plan(experiment("lab"), {});
  const std::vector<ExperimentRecord> experiments = store.experiments();
  REQUIRE(experiments.size() == 2);
  CHECK(experiments[0].name == "lab");
  CHECK(experiments[1].title == "A sweep");
  CHECK(experiments[1].file == "sweep.yaml");
  CHECK(experiments[1].profile == "cpu");
  CHECK(experiments[1].compare == "throughput");
}

TEST_CASE_METHOD(StoreTest,
                 "an attempt gets the wanted number, or the next one if it is recorded") {
  const std::vector runs{planned_run("a", 1)};
  const int64_t run_id = store.plan(experiment("lab"), runs).front().id;
  CHECK(store.begin_attempt(run_id, attempt_start(), 3) == 3);
  CHECK(store.begin_attempt(run_id, attempt_start(), 3) == 4);
  CHECK(store.begin_attempt(run_id, attempt_start(), 1) == 1);
}

TEST_CASE("texts of settings tell strategies, units and precisions apart") {
  StrategySpec strategy{};
  CHECK(sharding_text(strategy).empty());
  strategy.kind = StrategyKind::kFsdp;
  CHECK(sharding_text(strategy) == "full_shard");
  strategy.sharding = Sharding::kHybridShard;
  strategy.shard_group_size = 2;
  CHECK(sharding_text(strategy) == "hybrid_shard 2");
  CHECK(wrap_text({}) == "transformer_block");
  CHECK(wrap_text({.blocks = 2, .min_parameters = {}}) == "blocks 2");
  CHECK(wrap_text({.blocks = {}, .min_parameters = 100}) == "min_parameters 100");
  PrecisionSpec precision{};
  CHECK(precision_text(precision) == "fp32");
  precision.parameters = Dtype::kBf16;
  CHECK(precision_text(precision) == "bf16/bf16/fp32");
  precision.parameters.reset();
  precision.reduction = Dtype::kBf16;
  precision.buffers = Dtype::kFp16;
  CHECK(precision_text(precision) == "fp32/bf16/fp16");
  precision = {};
  precision.kind = PrecisionKind::kBf16True;
  precision.gradients = Dtype::kFp32;
  CHECK(precision_text(precision) == "bf16_true gradients fp32");
}

TEST_CASE_METHOD(StoreTest, "a row has its run's specification, and a view has it as JSON") {
  RunRecord run = planned_run("a", 4);
  run.spec.strategy.wrap.blocks = 3;
  run.spec.data.train = "/data/games.csv";
  run.spec.resume.is_auto = true;
  run.spec.environment = {"A=1", "B="};
  store.plan(experiment("lab"), std::vector{run});
  CHECK(store.comparison("lab").at(0).spec == run.spec);
  CHECK(store.spec(1) == run.spec);
  CHECK(sqlite3(results, "select spec ->> '$.strategy.wrap.blocks' from comparison") == "3\n");
}

TEST_CASE_METHOD(StoreTest, "a specification of another version is read if its values are known") {
  store.plan(experiment("lab"), std::vector{planned_run("a", 4)});
  const auto set = [&](const std::string& change) {
    Database(results.database()).execute("update runs set spec = " + change);
  };
  set("json_remove(json_set(spec, '$.new', 1), '$.train.seed', '$.batch')");
  CHECK(store.comparison("lab").at(0).spec.train.seed == TrainSpec().seed);
  CHECK(store.comparison("lab").at(0).spec.strategy.ranks == 4);
  CHECK(store.spec(1).batch.total == 16);
  set("json_set(spec, '$.strategy.wrap.policy', 'half')");
  CHECK_THROWS_WITH(store.comparison("lab"),
                    Catch::Contains("results.sqlite: the specification of run 1: "
                                    "'strategy.wrap.policy': \"half\" is not a value"));
  for (const char* text : {"'[]'", "'{\"model\":3}'"}) {
    set(text);
    CHECK_THROWS_WITH(store.spec(1), Catch::Contains("the specification of run 1: "));
  }
}

TEST_CASE_METHOD(
    StoreTest,
    "the view comparison holds the newest attempt's figures, read by the sqlite3 program") {
  const auto runs = in_order({planned_run("4xDDP", 2), planned_run("never run", 1)});
  const int64_t run_id = store.plan(experiment("lab"), runs).front().id;
  store.begin_attempt(run_id, attempt_start(500));
  store.end_attempt(run_id, 1, RunStatus::kInterrupted, "asked to stop", 900);
  store.begin_attempt(run_id, attempt_start(1'000));

  // Two warm-up steps, then 10, 30, 20 ms on rank 0 and 20, 20, 40 ms on rank 1.
  const double times_ms[2][5] = {{500, 400, 10, 30, 20}, {300, 600, 20, 20, 40}};
  std::vector<std::vector<Event>> events(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    RunStarted started;
    started.device_name = "a processor";
    started.steps_planned = 5;
    // By its own clock, the process started at 1'000 ms.
    events[rank].push_back(
        {.sequence = 0, .time_unix_ms = 1'400, .elapsed_ms = 400, .body = started});
    for (int64_t step = 1; step <= 5; ++step) {
      StepDone done = step_done(step, times_ms[rank][step - 1]);
      if (rank == 1) done.memory_allocated_bytes_max /= 2;
      events[rank].push_back(event(step, 1'500 + 500 * step, done));
    }
    events[rank].push_back(event(6, 4'100 + static_cast<int64_t>(rank), RunFinished{.steps = 5}));
  }
  store.ingest(run_id, 2, events);
  store.end_attempt(run_id, 2, RunStatus::kFinished, "", 4'200);

  CHECK(sqlite3(results,
                "select point,status,steps,step_time_ms_median,steps_per_second,tokens_per_second,"
                "memory_allocated_bytes_max,memory_reserved_bytes_max,loss_first,loss_last,"
                "total_time_ms,start_up_time_ms from comparison") ==
        // Step times of the slowest ranks after warm-up: 20, 30, 40 ms. Total time: 4101 - 1000.
        // Start-up time: 2000 - 500 - 1000.
        "4xDDP,finished,5,30.0,33.3333333333333,33333.3333333333,500,1000,10.0,2.0,"
        "3101,500.0\n"
        "\"never run\",planned,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,"
        "NULL\n");
  CHECK(sqlite3(results,
                "select experiment,hash8,position,attempt,reason,step_time_ms_p25,step_time_ms_p75,"
                "memory_allocated_bytes_min,memory_reserved_bytes_min,micro_batches_per_second,"
                "device_name from comparison where run = 1") ==
        "lab,01234567,0,2,\"\",25.0,35.0,250,1000,33.3333333333333,\"a processor\"\n");

  const auto ranks = store.comparison_per_rank("lab");
  REQUIRE(ranks.size() == 3);
  CHECK(ranks[1].rank == 1);
  CHECK(ranks[0].step_time_ms_median == 20);
  CHECK(ranks[1].memory_allocated_bytes_max == 250);
  CHECK(ranks[1].status == RunStatus::kFinished);
  CHECK(ranks[2].point == "never run");
  CHECK_FALSE(ranks[2].attempt);
  CHECK_FALSE(ranks[2].rank);
  CHECK_FALSE(ranks[2].steps);
}

TEST_CASE_METHOD(StoreTest, "figures of a running attempt are those of the steps so far") {
  const int64_t run_id = running_run(store, 1);
  store.ingest(run_id, 1, 0, step_events(1, 5));
  auto rows = store.comparison("lab");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].status == RunStatus::kRunning);
  CHECK(rows[0].steps == 5);
  CHECK_FALSE(rows[0].total_time_ms);
  store.ingest(run_id, 1, 0, step_events(6, 6));
  CHECK(store.comparison("")[0].steps == 6);
}

TEST_CASE_METHOD(
    StoreTest,
    "attempts left running by a killed runner are found with what their ranks said last") {
  const int64_t run_id = running_run(store, 3);
  store.ingest(run_id, 1, 0, step_events(1, 4));
  store.ingest(run_id, 1, 1,
               std::vector{event(0, 77, RunFailed{.exit_code = 3, .reason = "full"})});

  const auto running = store.running_attempts("lab");
  REQUIRE(running.size() == 1);
  CHECK(running[0].run.id == run_id);
  CHECK(running[0].attempt == 1);
  CHECK(running[0].ranks == 3);
  CHECK(running[0].start.runner_process_id == 42);
  CHECK(running[0].start.host == "node1");
  CHECK(running[0].start.started_unix_ms == 1'000);
  CHECK(sqlite3(results,
                "select rank, end_kind, last_event_unix_ms, exit_code, ranks.reason "
                "from ranks") == "0,none,4000,NULL,NULL\n1,run_failed,77,3,full\n");

  store.end_attempt(run_id, 1, RunStatus::kOutOfMemory, "rank 1: full", 4'000, 1);
  CHECK(store.running_attempts("lab").empty());
}

TEST_CASE_METHOD(StoreTest,
                 "a late end of an older attempt leaves the run's status to the newest") {
  const int64_t run_id = running_run(store, 1);
  CHECK(store.begin_attempt(run_id, attempt_start()) == 2);
  store.end_attempt(run_id, 2, RunStatus::kFinished, "", 2'000);
  store.end_attempt(run_id, 1, RunStatus::kInterrupted, "its runner was killed", 2'000);
  const std::vector runs{planned_run("point", 1)};
  CHECK(store.plan(experiment("lab"), runs).front().status == RunStatus::kFinished);
}

TEST_CASE_METHOD(StoreTest,
                 "GPU-hours were those of one attempt of several, and of the ranks only") {
  const auto held = [&] { return store.comparison("lab").at(0).held; };
  std::vector runs{planned_run("point", 2)};
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    runs[0].spec.device = device;
    runs[0].hash = name_of(device);
    const int64_t run_id = store.plan(experiment("lab"), runs).front().id;
    AttemptStart start = attempt_start(1'000);
    start.gpus_held = 8;  // of a job with exclusive nodes
    start.nodes_held = 2;
    store.begin_attempt(run_id, start);
    store.end_attempt(run_id, 1, RunStatus::kPreempted, "", 11'000);
    store.begin_attempt(run_id, attempt_start(20'000));
    store.end_attempt(run_id, 2, RunStatus::kFinished, "", 25'000);
  }
  CHECK(held().gpu_time_ms == 8 * 10'000 + 2 * 5'000);
  CHECK(held().gpu_time_in_jobs_ms == 8 * 10'000);
  CHECK(held().gpu_time_of_ranks_ms == 2 * 10'000);
  CHECK(held().node_time_ms == 2 * 10'000);
  runs[0].spec.device = DeviceKind::kCpu;
  runs[0].hash = name_of(DeviceKind::kCpu);
  store.plan(experiment("lab"), runs);
  CHECK_FALSE(held().gpu_time_ms);
  CHECK(held().node_time_ms == 2 * 10'000);
}

TEST_CASE_METHOD(StoreTest, "a digest is remembered until the file changes") {
  const auto file = results.path() / "tokens.npy";
  std::ofstream(file) << "one";
  CHECK_FALSE(store.digest(state_of(file)));
  store.remember_digest(state_of(file), "d1");
  CHECK(store.digest(state_of(file)) == "d1");
  std::filesystem::last_write_time(
      file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  CHECK_FALSE(store.digest(state_of(file)));
  store.remember_digest(state_of(file), "d2");
  CHECK(store.digest(state_of(file)) == "d2");
  std::ofstream(file) << "longer";
  CHECK_FALSE(store.digest(state_of(file)));
}

TEST_CASE_METHOD(StoreTest,
                 "a store's version changes when another one records, not when it does so itself") {
  const int64_t before = store.version();
  store.plan(experiment("lab"), {});
  CHECK(store.version() == before);
  Store(results.path()).plan(experiment("other"), {});
  CHECK(store.version() != before);
}

}  // namespace
}  // namespace fsdp
