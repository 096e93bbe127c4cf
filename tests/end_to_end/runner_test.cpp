#include <signal.h>
#include <yaml-cpp/yaml.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "base/files/digest.h"
#include "base/system/processor.h"
#include "contract/record/run_paths.h"
#include "tests/end_to_end/stub_runs.h"

// Tests the runs, output and refusals of fsdp-run.
using namespace fsdp;
using Catch::Matchers::Contains;

TEST_CASE("a sweep runs once; a second call only prints the table; --rerun runs it again") {
  const Workplace workplace(kTwoPoints);
  const Ended first = workplace.run();
  CHECK(first.status == 0);
  CHECK_THAT(first.output, Contains("\nfirst  ") && Contains("\nsecond  "));
  CHECK_THAT(first.errors, Contains("first: started, 3 ranks, 5 steps"));
  REQUIRE(rows(workplace).size() == 2);
  for (const ComparisonRow& row : rows(workplace)) {
    CHECK(row.status == RunStatus::kFinished);
    CHECK(row.steps == 5);
    CHECK(row.attempt == 1);
    const auto folder = workplace.results() / row.folder;
    CHECK(YAML::LoadFile(folder / "run.yaml")["train"]["steps"].as<int>() == 5);
    CHECK_THAT(text_of(folder / "attempt-1/rank1.log"), Contains("stub trainer, rank 1"));
  }

  const Ended second = workplace.run();
  CHECK(second.status == 0);
  CHECK(second.output == first.output);
  CHECK_THAT(second.errors, Contains("2 runs with a result already") && !Contains("started"));
  CHECK(rows(workplace)[0].attempt == 1);

  CHECK(workplace.run({"experiment.yaml", "--rerun", "--only", "second"}).status == 0);
  REQUIRE(rows(workplace).size() == 2);
  CHECK(rows(workplace)[0].attempt == 1);
  CHECK(rows(workplace)[1].attempt == 2);
}

TEST_CASE("an attempt keeps where it comes from: the experiment as it was, programs, machine") {
  const Workplace workplace("  - {name: one}\n");
  const std::string text = text_of(workplace / "experiment.yaml");
  CHECK(workplace.run({"experiment.yaml"}, {{"NCCL_DEBUG", "WARN"}}).status == 0);
  std::ofstream(workplace / "experiment.yaml", std::ios::app) << "# a note\n";
  CHECK(workplace.run({"experiment.yaml", "--rerun"}).status == 0);
  const Store store(workplace.results());
  CHECK(store.experiment_text(1, 1) == text);
  CHECK(store.experiment_text(1, 2) == text + "# a note\n");
  const Provenance first = store.provenance(1, 1);
  CHECK(first.trainer_digest.size() == 32);
  CHECK(first.git_untracked == true);
  CHECK(first.experiment_text_digest == text_digest(text));
  CHECK(first.cpu_cores >= 1);
  CHECK_THAT(first.environment, Contains(R"("NCCL_DEBUG":"WARN")"));
  CHECK(store.provenance(1, 2).trainer_digest == first.trainer_digest);
  CHECK(YAML::Load(store.spec_text(1))["train"]["steps"].as<int>() == 5);
  REQUIRE(store.attempts(1).size() == 2);
  CHECK(store.attempts(1)[1].status == RunStatus::kFinished);
  CHECK(rows(workplace)[0].data_digest.size() == 32);
}

TEST_CASE("an attempt that was started by hand is imported when all of its ranks have ended") {
  const Workplace workplace("  - {name: one}\n");
  CHECK(workplace.run({"experiment.yaml"}, {{"STUB_RULES", "step=3,fail=no luck"}}).status == 1);
  const auto folder = workplace.results() / rows(workplace)[0].folder;
  const auto by_hand = [&](const std::string& attempt, const std::string& rules) {
    return Program(workplace / ".",
                   {STUB_TRAINER_PROGRAM, "--spec", (folder / "run.yaml").string(), "--attempt",
                    attempt},
                   {{"RANK", "0"}, {"STUB_RULES", rules}})
        .wait();
  };
  CHECK(by_hand("2", "step=3,kill=9").status != 0);
  CHECK(by_hand("3", "").status == 0);

  const Ended ended = workplace.run();
  CHECK(ended.status == 0);
  CHECK_THAT(ended.errors,
             Contains("one: attempt 2, started by hand, has not ended, or was killed, and is not "
                      "recorded\n") &&
                 Contains("one: attempt 3, started by hand, is recorded as finished\n") &&
                 !Contains("one: started"));
  REQUIRE(rows(workplace)[0].attempt == 3);
  CHECK(rows(workplace)[0].status == RunStatus::kFinished);
  CHECK(rows(workplace)[0].steps == 5);
}

TEST_CASE("what a runner decides and does is in its log, and each step in a rank's") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run({"experiment.yaml", "--only", "first"}).status == 0);
  CHECK(workplace.run({"experiment.yaml", "--log-level", "warning"}).status == 0);
  const std::string log = text_of(workplace.results() / "fsdp-run.log");
  CHECK_THAT(log,
             Contains("info    start: experiment trial, ") &&
                 Contains("info    plan: trial/first ") && Contains(": to run, is planned\n") &&
                 Contains("info    run: first: started\n") &&
                 Contains("info    run: first: finished, 5/5") && !Contains("second: started"));
  CHECK(workplace.run({"experiment.yaml", "--log-level", "loud"}).status == 2);
}

TEST_CASE("--only chooses what runs; the table is that of the file as it is now") {
  const Workplace workplace("  - {name: one}\n  - {name: two}\n");
  const auto write = [&](const std::string& sweep) {
    std::ofstream(workplace / "experiment.yaml")
        << "experiment: trial\nbase: {device: cpu, train.steps: 5}\n"
           "points: [{name: one}, {name: two}]\nsweep: {product: {train.seed: " +
               sweep + "}}\n";
  };
  write("[1, 2]");
  CHECK(workplace.run().status == 0);
  REQUIRE(rows(workplace).size() == 4);
  write("[3, 1]");
  CHECK(workplace.run({"experiment.yaml", "--only", "two"}).status == 0);
  const std::vector<ComparisonRow> found = rows(workplace);
  REQUIRE(found.size() == 4);
  const std::vector<std::pair<std::string, RunStatus>> expected{
      {"one seed=3", RunStatus::kPlanned},
      {"one seed=1", RunStatus::kFinished},
      {"two seed=3", RunStatus::kFinished},
      {"two seed=1", RunStatus::kFinished}};
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(found[i].point == expected[i].first);
    CHECK(found[i].status == expected[i].second);
  }
}

TEST_CASE("--only runs a point beside one that cannot run") {
  const Workplace workplace(
      "  - {name: sound}\n  - {name: without data, data.train: missing.csv}\n"
      "  - {name: indivisible, batch: {total: 7, size_per_rank: 2}}\n"
      "  - {name: without GPUs, device: cuda, strategy: {kind: ddp, ranks: 99}}\n");
  CHECK(workplace.run({"experiment.yaml", "--only", "sound"}).status == 0);
  CHECK(rows(workplace).at(0).status == RunStatus::kFinished);
}

TEST_CASE("runs go side by side when asked to") {
  if (available_cores() < 2) {
    WARN("left out: runs with a rank each go side by side on two cores");
    return;
  }
  const Workplace workplace(
      "  - {name: first}\n"
      "  - {name: second, strategy: {kind: ddp, ranks: 1}}\n");
  // Each run waits for a file that the other run makes.
  const Ended ended =
      workplace.run({"experiment.yaml", "--max-parallel", "2"},
                    {{"STUB_RULES",
                      "point=first,step=2,spawn=one; point=first,step=2,await=two; "
                      "point=second,step=2,spawn=two; point=second,step=2,await=one"}});
  INFO(ended.output + ended.errors);
  CHECK(ended.status == 0);
}

TEST_CASE("a runner waits for another one on its devices, or shares them") {
  const Workplace one("  - {name: first}\n"), two("  - {name: second}\n");
  const Variables host{{"TMPDIR", one / "."}};
  Variables until_told = host;
  until_told["STUB_RULES"] = "step=3,await=" + (one / "told").string();
  Program first(one / ".", one.command({"experiment.yaml"}), until_told);
  first.wait_for_error_text("first: started");
  const std::string first_claim = "process " + std::to_string(first.process_id());
  SECTION("waits") {
    Program second(two / ".", two.command({"experiment.yaml", "--quiet"}), host);
    second.wait_for_error_text("waits for " + first_claim + " on ");
    // Another runner takes the devices. With --quiet this is in the log only.
    const Workplace three("  - {name: third}\n");
    Program third(three / ".", three.command({"experiment.yaml", "--share"}), until_told);
    third.wait_for_error_text("third: started");
    const std::string third_claim = "process " + std::to_string(third.process_id());
    CHECK(
        soon([&] { return Contains(third_claim).match(text_of(two.results() / "fsdp-run.log")); }));
    std::ofstream(one / "told") << '\n';
    CHECK(first.wait().status == 0);
    CHECK(third.wait().status == 0);
    const Ended ended = second.wait();
    CHECK(ended.status == 0);
    CHECK(ended.errors.find("waits for") == ended.errors.rfind("waits for"));
  }
  SECTION("is asked to stop while it waits") {
    Program second(two / ".", two.command({"experiment.yaml"}), host);
    second.wait_for_error_text("waits for " + first_claim);
    second.send(SIGINT);
    CHECK(second.wait().status == 130);
    CHECK(rows(two).at(0).status == RunStatus::kPlanned);
  }
  SECTION("shares") {
    Program second(two / ".", two.command({"experiment.yaml", "--share"}), until_told);
    second.wait_for_error_text("runs at the same time as " + first_claim);
    second.wait_for_error_text("second: started");
    std::ofstream(one / "told") << '\n';
    CHECK(first.wait().status == 0);
    CHECK(second.wait().status == 0);
  }
}

TEST_CASE("GPU runs see the GPUs that were chosen, or those that nobody holds, or are refused") {
  using Words = std::vector<std::string>;
  struct Case {
    std::string gpus, processes;
    Words choice;
    std::string seen, refusal;
  };
  const Case chosen = GENERATE(values<Case>(
      {{"80 80 80 80", "0 4242 3", {"--gpus", "3,1"}, "1: 3,1\n", ""},
       {"80 80 80", "1 4242 3", {}, "1: 0,2\n", ""},
       {"80 80", "1 4242 3", {}, "", "GPU 1 (Fake GPU) is held by process 4242 'python' (3.00 GiB"},
       {"80 80", "", {"--gpus", "1"}, "", "GPU"}}));
  CAPTURE(chosen.gpus, chosen.processes, chosen.choice);
  const Workplace workplace("  - {name: gpu, device: cuda, strategy: {kind: fsdp, ranks: 2}}\n");
  std::ofstream(workplace / "trainer") << "#!/bin/sh\necho \"$RANK: $CUDA_VISIBLE_DEVICES\"\n";
  std::filesystem::permissions(workplace / "trainer", std::filesystem::perms::owner_all);
  Words arguments{"experiment.yaml"};
  arguments.insert(arguments.end(), chosen.choice.begin(), chosen.choice.end());
  std::vector<std::string> command = workplace.command(arguments);
  command.back() = workplace / "trainer";
  const Ended ended = Program(workplace / ".", command,
                              {{"LD_LIBRARY_PATH", FAKE_NVML_FOLDER},
                               {"FAKE_NVML_GPUS", chosen.gpus},
                               {"FAKE_NVML_PROCESSES", chosen.processes}})
                          .wait();
  if (chosen.seen.empty()) {
    CHECK(ended.status == 2);
    CHECK_THAT(ended.errors, Contains(chosen.refusal));
    if (!std::filesystem::exists(workplace.results())) return;
    for (const ComparisonRow& row : rows(workplace)) CHECK_FALSE(row.attempt);
    return;
  }
  const ComparisonRow row = rows(workplace).at(0);
  CHECK_THAT(row.reason, Contains("every rank exited with status 0, but"));
  CHECK(text_of(workplace.results() / row.folder / "attempt-1/rank1.log") == chosen.seen);
}

TEST_CASE("a dry run prints every run and writes nothing") {
  const Workplace workplace(kTwoPoints);
  const Ended ended = workplace.run({"experiment.yaml", "--dry-run"});
  CHECK(ended.status == 0);
  const std::vector<YAML::Node> documents = YAML::LoadAll(ended.output);
  REQUIRE(documents.size() == 2);
  CHECK(documents[1]["strategy"]["kind"].as<std::string>() == "fsdp");
  CHECK_THAT(ended.output,
             Contains("# point: \"second\"") && Contains("# folder: results/runs/trial/second-"));
  CHECK_FALSE(std::filesystem::exists(workplace.results()));
}

TEST_CASE("a dry run named the folders of the list without --set") {
  const Workplace workplace(kTwoPoints);
  const std::string list = file_name_of("trial [train.steps=7]");
  const Ended ended = workplace.run(
      {"experiment.yaml", "--launcher", "slurm", "--set", "train.steps=7", "--dry-run"});
  CHECK_THAT(ended.output, Contains("# folder: results/runs/" + list + "/second-") &&
                               Contains("/results/slurm/" + list + "-TOKEN/"));
}

TEST_CASE("a dry run for jobs prints their scripts, too") {
  const Workplace workplace(
      "  - {name: one}\n  - {name: two, train.seed: 2}\n  - {name: large, slurm.mem: 7G}\n",
      "{train.steps: 5, device: cpu}");
  const Ended ended = workplace.run({"experiment.yaml", "--launcher", "slurm", "--dry-run"});
  CHECK(ended.status == 0);
  const std::vector<YAML::Node> documents = YAML::LoadAll(ended.output);
  REQUIRE(documents.size() == 5);
  const auto script = [&](size_t at) { return documents[at]["job_script"].as<std::string>(); };
  CHECK_THAT(script(3), Catch::StartsWith("#!/bin/bash\n#SBATCH") &&
                            Contains("#SBATCH --array=0-1\n") &&
                            Contains("/results/slurm/trial-TOKEN"));
  CHECK_THAT(script(4), Contains("#SBATCH --array=0-0\n") && Contains("#SBATCH --mem=7G\n"));
  CHECK_FALSE(std::filesystem::exists(workplace.results()));
}

TEST_CASE("what is for jobs is expanded for them, without --launcher slurm too") {
  const Workplace workplace("  - {name: one, device: auto, slurm.gpus_per_node: 1}\n");
  for (const std::string option : {"--detach", "--follow"}) {
    CHECK_THAT(workplace.run({"experiment.yaml", option, "--dry-run"}).output,
               Contains("device: cuda"));
  }
}

TEST_CASE("another file's experiment of the same name is taken over with a warning") {
  const Workplace workplace("  - {name: only}\n");
  CHECK_THAT(workplace.run().errors, !Contains("warning"));
  CHECK_THAT(workplace.run({(workplace / "experiment.yaml").string()}).errors,
             !Contains("warning"));
  std::filesystem::copy_file(workplace / "experiment.yaml", workplace / "another.yaml");
  const Ended ended = workplace.run({"another.yaml"});
  CHECK(ended.status == 0);
  CHECK_THAT(ended.errors, Contains("warning: results holds runs of 'trial' from " +
                                    (workplace / "experiment.yaml").string()) &&
                               Contains("rename `experiment:`") && Contains("--results"));
  CHECK_THAT(workplace.run({"another.yaml"}).errors, !Contains("warning"));
}

TEST_CASE("a file may be named like a command") {
  const Workplace workplace(kTwoPoints);
  std::filesystem::copy_file(workplace / "experiment.yaml", workplace / "check");
  CHECK(workplace.run({"run", "check"}).status == 0);
  CHECK(rows(workplace).size() == 2);
}

TEST_CASE("what ranks report while they run is said as it comes, once") {
  const Workplace workplace(
      "  - {name: short, strategy: {kind: ddp, ranks: 2}, train.max_steps: 4,\n"
      "     evaluation: {every_steps: 2, fraction: 0.1}, checkpoint.every_steps: 4}\n");
  const Ended ended = workplace.run();
  CHECK(ended.status == 0);
  const std::string lines =
      "short: started, 2 ranks, 4 steps\n"
      "short: warning: train.max_steps cuts the run short\n"
      "short: step 2  validation loss 3.0000  accuracy 12.5 %\n"
      "short: step 4  validation loss 1.5000  accuracy 12.5 %\n"
      "short: step 4  checkpoint checkpoints/step-4  0.00293 GiB  1.5 s\n"
      "short: finished, 4/4  ";
  CHECK_THAT(ended.errors, Contains(lines));
  CHECK_THAT(ended.output, Contains("validation") && Contains("  1.500\n"));
}
