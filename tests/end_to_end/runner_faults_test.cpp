#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/end_to_end/stub_runs.h"

// Runs fail, are stopped or are killed. Later calls handle them.
using namespace fsdp;
using Catch::Matchers::Contains;

TEST_CASE("a rank killed by a signal fails its run, and the sweep goes on") {
  const Workplace workplace(kTwoPoints);
  const Ended ended =
      workplace.run({"experiment.yaml"}, {{"STUB_RULES", "point=first,rank=2,step=3,kill=9"}});
  CHECK(ended.status == 1);
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 2);
  CHECK(found[0].status == RunStatus::kFailed);
  CHECK_THAT(found[0].reason, Contains("rank 2 killed by signal 9"));
  CHECK_THAT(ended.errors, Contains((found[0].folder / "attempt-1/rank2.log").string()));
  CHECK(found[1].status == RunStatus::kFinished);
  for (const pid_t process : workplace.reported_processes()) CHECK(gone_soon(process));

  CHECK(workplace.run().status == 0);  // the failed run is tried again
  CHECK(rows(workplace)[0].attempt == 2);
  CHECK(rows(workplace)[1].attempt == 1);
}

TEST_CASE("a run whose ranks said nothing has its row in the table per rank") {
  const Workplace workplace("  - {name: silent, strategy: {kind: ddp, ranks: 2}}\n");
  std::ofstream(workplace / "trainer") << "#!/bin/sh\nexit 1\n";
  std::filesystem::permissions(workplace / "trainer", std::filesystem::perms::owner_all);
  std::vector<std::string> command = workplace.command({"experiment.yaml", "--per-rank"});
  command.back() = workplace / "trainer";
  const Ended ended = Program(workplace / ".", command).wait();
  CHECK(ended.status == 1);
  const size_t row = ended.output.find("\nsilent  ddp ");
  REQUIRE(row != std::string::npos);
  CHECK_THAT(ended.output.substr(row + 1, ended.output.find('\n', row + 1) - row),
             Contains(" - ") && Contains("failed"));
}

TEST_CASE("a run that does not fit is a result") {
  const Workplace workplace(kTwoPoints);
  const Variables rules{
      {"STUB_RULES", "point=first,rank=0,exit=4; point=first,rank=1,out_of_memory=needs 3 GiB"}};
  CHECK(workplace.run({"experiment.yaml"}, rules).status == 0);
  CHECK(rows(workplace)[0].status == RunStatus::kOutOfMemory);
  CHECK(rows(workplace)[0].reason == "rank 1: needs 3 GiB");
  CHECK(rows(workplace)[1].status == RunStatus::kFinished);
  CHECK(workplace.run().status == 0);
  CHECK(rows(workplace)[0].attempt == 1);
}

TEST_CASE("--follow leaves alone what failed or was never submitted, and ends with exit status 1") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run({"experiment.yaml", "--only", "first"}, {{"STUB_RULES", "fail=no data"}})
            .status == 1);
  const Ended follows = workplace.run({"experiment.yaml", "--follow"});
  CHECK(follows.status == 1);
  CHECK_THAT(follows.errors,
             Contains("2 runs without a result, and in no job; to submit what is left, call: "
                      "fsdp-run experiment.yaml --launcher slurm"));
  CHECK(rows(workplace)[0].attempt == 1);
}

TEST_CASE("a time limit ends a run") {
  const Workplace workplace(kTwoPoints);
  const Ended ended = workplace.run({"experiment.yaml", "--only", "first", "--time-limit", "1s"},
                                    {{"STUB_RULES", "step=3,await=nothing"}});
  CHECK(ended.status == 1);
  CHECK(rows(workplace)[0].status == RunStatus::kTimeLimit);
}

TEST_CASE("Ctrl-C stops everything, keeps what was measured, and a later call goes on") {
  const Workplace workplace(kTwoPoints);
  Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                 {{"STUB_RULES",
                   "rank=0,step=3,spawn=0; rank=1,step=3,spawn=1; rank=2,step=3,spawn=2; "
                   "step=3,await=nothing"}});
  std::vector<pid_t> spawned;
  for (const char* rank : {"0", "1", "2"}) {  // all have reported step 2
    spawned.push_back(std::stoi(first_line_of(workplace / rank)));
  }
  runner.send(SIGINT);
  const Ended ended = runner.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.errors,
             Contains("\nfirst is not saved, as it has no checkpoint; to go on: fsdp-run "
                      "experiment.yaml ") &&
                 Catch::EndsWith("\n"));
  CHECK_THAT(ended.output, Contains("interrupted: asked to stop, after step 2"));
  for (const pid_t process : spawned) CHECK(gone_soon(process));
  for (const pid_t process : workplace.reported_processes()) CHECK(gone_soon(process));
  CHECK(rows(workplace)[0].status == RunStatus::kInterrupted);
  CHECK(rows(workplace)[0].steps == 2);
  CHECK(rows(workplace)[1].status == RunStatus::kPlanned);

  CHECK(workplace.run().status == 0);
  CHECK(rows(workplace)[0].status == RunStatus::kFinished);
}

TEST_CASE("a rerun that is cut short says which runs keep their earlier results") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  Program runner(
      workplace / ".", workplace.command({"experiment.yaml", "--rerun"}),
      {{"STUB_RULES", "point=second,step=3,spawn=marker; point=second,step=3,await=no"}});
  first_line_of(workplace / "marker");
  runner.send(SIGINT);
  const Ended ended = runner.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.errors, Contains("\nsecond has its earlier result (to begin it anew: --rerun "
                                    "--only second); to go on: fsdp-run experiment.yaml"));
  CHECK_THAT(ended.errors, !Contains("first has its earlier result"));
}

TEST_CASE("a rerun that failed keeps no earlier result") {
  const Workplace workplace(kTwoPoints);
  REQUIRE(workplace.run().status == 0);
  Program runner(workplace / ".", workplace.command({"experiment.yaml", "--rerun"}),
                 {{"STUB_RULES",
                   "point=first,step=2,fail=no luck; "
                   "point=second,step=3,spawn=marker; point=second,step=3,await=no"}});
  first_line_of(workplace / "marker");
  runner.send(SIGINT);
  CHECK_THAT(runner.wait().errors, !Contains("first has its earlier result"));
  CHECK(rows(workplace)[0].status == RunStatus::kFailed);
}

TEST_CASE("a second Ctrl-C kills at once") {
  const Workplace workplace(kTwoPoints);
  Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                 {{"STUB_RULES", "deaf=1; step=2,rank=0,spawn=marker; step=2,hang=1"}});
  first_line_of(workplace / "marker");
  runner.send(SIGINT);
  runner.wait_for_error_text("stopping the runs");
  runner.send(SIGINT);
  const Ended ended = runner.wait();
  CHECK(ended.status == 130);
  CHECK_THAT(ended.errors, Contains("killing the runs"));
  CHECK(rows(workplace)[0].status == RunStatus::kInterrupted);
}

TEST_CASE("everything dies with a runner killed by signal 9; calling again finishes the sweep") {
  const Workplace workplace(kTwoPoints);
  for (const char* step : {"1", "3", "5"}) {
    std::filesystem::remove(workplace / "marker");
    Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                   {{"STUB_RULES", "point=second,rank=1,step=" + std::string(step) +
                                       ",spawn=marker; point=second,step=" + step + ",deaf=1; " +
                                       "point=second,step=" + step + ",hang=1"}});
    const pid_t spawned = std::stoi(first_line_of(workplace / "marker"));
    runner.send(SIGKILL);
    runner.wait();
    CHECK(gone_soon(spawned));
    for (const pid_t process : workplace.reported_processes()) CHECK(gone_soon(process));
  }
  const Ended ended = workplace.run();
  CHECK(ended.status == 0);
  CHECK_THAT(ended.errors, Contains("the runner of attempt 3 was killed"));
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 2);
  CHECK(found[0].attempt == 1);  // finished before the first kill
  CHECK(found[1].attempt == 4);
  for (const ComparisonRow& row : found) {
    CHECK(row.status == RunStatus::kFinished);
    CHECK(row.steps == 5);
  }
}

TEST_CASE("a runner leaves another one's experiment alone") {
  const Workplace workplace(kTwoPoints);
  Program first(workplace / ".", workplace.command({"experiment.yaml"}),
                {{"STUB_RULES", "rank=0,step=2,spawn=marker; step=2,await=go"}});
  first_line_of(workplace / "marker");
  const Ended second = workplace.run();
  CHECK(second.status == 1);
  CHECK_THAT(second.errors,
             Contains("another fsdp-run (process " + std::to_string(first.process_id()) + " on "));
  std::ofstream(workplace / "go") << "go";
  CHECK(first.wait().status == 0);
}

TEST_CASE("a run that was interrupted or killed goes on from its newest checkpoint") {
  const int signal_number = GENERATE(SIGTERM, SIGUSR1);  // also Slurm's before a time limit
  const Workplace workplace("  - {name: saves, checkpoint: {every_steps: 2, keep: 1}}\n",
                            "{device: cpu, train.steps: 9}");
  {
    Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                   {{"STUB_RULES", "step=6,spawn=marker; step=6,await=nothing"}});
    first_line_of(workplace / "marker");
    runner.send(signal_number);
    const Ended ended = runner.wait();
    CHECK(ended.status == 130);
    CHECK_THAT(ended.errors, Contains("saves: step 5  checkpoint checkpoints/step-5"));
    CHECK_THAT(ended.errors, Contains("\nsaves is saved at step 5; to go on: fsdp-run exp"));
    CHECK_THAT(ended.errors, !Contains("goes on from"));
  }
  const std::filesystem::path folder = workplace.results() / rows(workplace).at(0).folder;
  const std::string specification = text_of(folder / "run.yaml");
  {
    Program runner(workplace / ".", workplace.command({"experiment.yaml"}),
                   {{"STUB_RULES", "step=8,spawn=second_marker; step=8,hang=1"}});
    first_line_of(workplace / "second_marker");
    runner.wait_for_error_text("saves: started, 1 rank, 9 steps\nsaves: goes on from step 5\n");
    runner.send(SIGKILL);
    runner.wait();
  }
  const Ended ended = workplace.run();
  CHECK(ended.status == 0);
  CHECK_THAT(ended.errors, Contains("saves: started, 1 rank, 9 steps\n"
                                    "saves: goes on from step 6\n"));
  CHECK_THAT(ended.output, Contains("the steps after a checkpoint: saves from step 6; --rerun"));
  const ComparisonRow row = rows(workplace).at(0);
  CHECK(row.status == RunStatus::kFinished);
  CHECK(row.attempt == 3);
  CHECK(row.steps == 3);
  CHECK(row.loss_first == 5.0);
  CHECK(workplace.results() / row.folder == folder);
  CHECK(text_of(folder / "run.yaml") == specification);
  CHECK(std::filesystem::exists(folder / "checkpoints/step-8"));

  // The run starts from the beginning. The finished attempt keeps its files.
  CHECK_THAT(workplace.run({"experiment.yaml", "--rerun"}).errors, !Contains("goes on from"));
  int attempts_with_checkpoints = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(workplace.results())) {
    const bool is_set_aside = entry.path().filename() == "checkpoints" &&
                              entry.path().parent_path().filename() == "attempt-3";
    attempts_with_checkpoints += is_set_aside ? 1 : 0;
  }
  CHECK(attempts_with_checkpoints == 1);
}

TEST_CASE("--rerun and resume: never begin anew, and keep what an unfinished run has saved") {
  const std::vector<std::string> anew = GENERATE(std::vector<std::string>{"--rerun"},
                                                 std::vector<std::string>{"--set", "resume=never"});
  const Workplace workplace("  - {name: saves, checkpoint: {every_steps: 2, keep: 1}}\n",
                            "{device: cpu, train.steps: 9}");
  const auto stop_at = [&](const std::string& step, std::vector<std::string> arguments) {
    std::filesystem::remove(workplace / "marker");
    arguments.insert(arguments.begin(), "experiment.yaml");
    Program runner(workplace / ".", workplace.command(arguments),
                   {{"STUB_RULES", "step=" + step + ",spawn=marker; step=" + step + ",hang=1"}});
    first_line_of(workplace / "marker");
    runner.send(SIGKILL);
    runner.wait();
  };
  stop_at("7", {});
  const std::filesystem::path folder = workplace.results() / rows(workplace).at(0).folder;
  REQUIRE(std::filesystem::exists(folder / "checkpoints/step-6"));
  stop_at("3", anew);
  CHECK(std::filesystem::exists(folder / "checkpoints/step-2"));
  CHECK(std::filesystem::exists(folder / "attempt-1/checkpoints/step-6"));
  // Without these words the run goes on from where it is.
  CHECK_THAT(workplace.run().errors, Contains("saves: goes on from step 2"));
}

TEST_CASE("SIGUSR1 ends a runner that has begun nothing yet, as interrupted") {
  const Workplace workplace(kTwoPoints);
  const std::filesystem::path pipe = workplace / "pipe.yaml";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  Program runner(workplace / ".", workplace.command({"pipe.yaml"}));
  const std::ofstream writer(pipe);  // blocks until the runner reads
  runner.send(SIGUSR1);
  CHECK(runner.wait().status == 130);
}

TEST_CASE("a rank that cannot be forked fails its run with the remedy, and the sweep goes on") {
  const Workplace workplace(kTwoPoints);
  const Ended ended =
      workplace.run({"experiment.yaml"}, {{"LD_PRELOAD", FORK_FAILS_LIBRARY},
                                          {"ASAN_OPTIONS", "verify_asan_link_order=0"},
                                          {"FORK_FAILS_AT", "4"}});
  CHECK(ended.status == 1);
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 2);
  CHECK_THAT(found[0].reason, Contains("cannot start rank 2: ") && Contains("ulimit -u"));
  CHECK_THAT(found[1].reason, Contains("cannot start rank 1: ") && Contains("ulimit -u"));
}

TEST_CASE("a limit on the size of files is an error that names the file, not the runner's end") {
  const Workplace workplace(kTwoPoints);
  std::ofstream(workplace / "run.sh") << "ulimit -f 16\nexec \"$@\"\n";
  std::vector<std::string> command = workplace.command({"experiment.yaml"});
  command.insert(command.begin(), {"/bin/sh", "run.sh"});
  const Ended ended = Program(workplace / ".", command).wait();
  CHECK(ended.status == 1);
  CHECK_THAT(ended.errors, Contains("results.sqlite: ") && Contains("ulimit -f"));
}
