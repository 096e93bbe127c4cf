#include <signal.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "tests/end_to_end/stub_runs.h"

// fsdp-run status, logs and explain.
using namespace fsdp;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

std::string line_of(const std::string& text, const std::string& part) {
  const size_t found = text.find(part);
  if (found == std::string::npos) return "";
  const size_t start = text.rfind('\n', found) + 1;
  return text.substr(start, text.find('\n', found) - start);
}

}  // namespace

TEST_CASE("status counts runs and shows those under way with figures of their newest steps") {
  const Workplace workplace("  - {name: done}\n  - {name: second}\n  - {name: third}\n",
                            "{train.steps: 4, device: cpu}");
  Program program(workplace / ".", workplace.command({"experiment.yaml"}),
                  {{"STUB_RULES", "point=second,step=3,await=" + (workplace / "go").string()}});
  std::string shown;
  REQUIRE(soon([&] {
    if (!std::filesystem::exists(workplace.results() / "results.sqlite")) return false;
    shown = workplace.call({"status", "trial"}).output;
    return shown.find("2/4") != std::string::npos;
  }));
  CHECK_THAT(shown, StartsWith("3 runs: 1 finished, 1 running, 1 planned\n"));
  CHECK_THAT(line_of(shown, "trial/done"), Contains("finished") && Contains("4/4"));
  // 10 ms a step, 2 steps left, a loss of 5 / 2.
  CHECK_THAT(line_of(shown, "trial/second"), Contains("running") && Contains("10.0") &&
                                                 Contains("0.00293") && Contains("2.5000") &&
                                                 Contains("0s"));
  CHECK_THAT(line_of(shown, "trial/third"), Contains("planned"));

  program.send(SIGKILL);
  program.wait();
  CHECK_THAT(workplace.call({"status"}).output,
             Contains("runner gone") && Contains("Call it again"));
}

TEST_CASE("logs prints a rank's log: of the one that failed, or of the one named") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run({"experiment.yaml"}, {{"STUB_RULES", "point=first,rank=1,step=2,fail=no"}})
            .status == 1);
  CHECK(workplace.call({"logs", "first"}).output == "stub trainer, rank 1\n");
  CHECK(workplace.call({"logs", "first", "--rank", "2"}).output == "stub trainer, rank 2\n");
  CHECK(workplace.call({"logs", "second"}).output == "stub trainer, rank 0\n");
  CHECK_THAT(workplace.call({"logs", "first", "--rank", "9"}).errors, Contains("rank 9"));
  CHECK_THAT(
      workplace.call({"sample", "first", "3 - 5 is?", "--tokens", "3", "--trainer", "/bin/echo"})
          .output,
      StartsWith("--spec=results/runs/") &&
          EndsWith("/run.yaml --sample=3 - 5 is? --tokens=3 --device=cpu\n"));
  CHECK_THAT(workplace.call({"logs", "first", "--attempt", "3"}).errors, Contains("allowed: 1"));
}

TEST_CASE("sample of a run that was never started says so") {
  const Workplace workplace(kTwoPoints);
  CHECK(workplace.run({"experiment.yaml", "--only", "first"}).status == 0);
  const Ended ended = workplace.call({"sample", "second", "3 - 5 is?", "--trainer", "/bin/echo"});
  CHECK(ended.status == 2);
  CHECK_THAT(ended.errors, Contains("was never started, so it has no checkpoint"));
}

TEST_CASE("logs --follow prints what is written until the run has ended") {
  const Workplace workplace("  - {name: first}\n", "{train.steps: 4, device: cpu}");
  std::ofstream(workplace / "trainer")
      << "#!/bin/sh\necho begun\nwhile [ ! -e " << (workplace / "go").string()
      << " ]; do sleep 0.01; done\necho ended\n";
  std::filesystem::permissions(workplace / "trainer", std::filesystem::perms::owner_all);
  std::vector<std::string> command = workplace.command({"experiment.yaml"});
  command.back() = workplace / "trainer";
  Program run(workplace / ".", command);
  run.wait_for_error_text("started");
  Program logs(workplace / ".", {FSDP_RUN_PROGRAM, "logs", "first", "--follow"});
  CHECK(first_line_of(logs.output()) == "begun");
  std::ofstream(workplace / "go") << '\n';
  run.wait();
  CHECK(logs.wait().output == "begun\nended\n");
}

TEST_CASE("explain says why a run failed, what makes it another run, and how to repeat it") {
  const Workplace workplace("  - {name: first}\n");
  CHECK(workplace.run().status == 0);
  CHECK_THAT(workplace.call({"explain", "first", "--trainer", STUB_TRAINER_PROGRAM}).output,
             Contains("has a result, so a call of fsdp-run skips it") &&
                 Contains("first of its experiment"));
  CHECK(workplace
            .run({"experiment.yaml", "--set", "train.steps=7"},
                 {{"STUB_RULES", "step=2,fail=out of luck"}})
            .status == 1);
  const std::string list = "trial [train.steps=7]", run = list + "/first";
  const std::string explained =
      workplace.call({"explain", run, "--trainer", STUB_TRAINER_PROGRAM}).output;
  CHECK_THAT(explained, Contains("failed: rank 0: out of luck") &&
                            Contains("has no result, so the next call of fsdp-run runs it") &&
                            Contains("  | stub trainer, rank 0") && Contains("train.steps: 7") &&
                            Contains("differs in 1 key; the first: train.steps, there 5, here 7"));

  const std::string command = line_of(explained, " --spec ");
  CHECK_THAT(command, Contains("RANK=0 ") && Contains("WORLD_SIZE=1 "));
  REQUIRE(std::system(("cd / && env -i " + command + " > /dev/null").c_str()) == 0);
  const ComparisonRow row = Store(workplace.results()).comparison(list).at(0);
  CHECK_THAT(text_of(workplace.results() / row.folder / "attempt-2/events.rank0.jsonl"),
             Contains("\"kind\":\"run_finished\"") && Contains("\"steps\":7"));

  std::filesystem::remove(workplace.results() / row.folder / "attempt-1/rank0.log");
  CHECK_THAT(workplace.call({"explain", run, "--trainer", STUB_TRAINER_PROGRAM}).output,
             Contains("  there is nothing in ") && !Contains("the end of "));
}

TEST_CASE("explain names changed input files, when nothing else differs") {
  const Workplace workplace("  - {name: first, data.train: games.csv}\n");
  std::string games = "Moves,Termination,Result\n";
  for (int i = 0; i < 10; ++i) games += "1. e4 e5 2. Nf3 Nc6,CHECKMATE,1-0\n";
  std::ofstream(workplace / "games.csv") << games;
  CHECK(workplace.run().errors.find("finished") != std::string::npos);
  std::ofstream(workplace / "games.csv") << games + "1. d4 d5 2. c4 e6,CHECKMATE,0-1\n";
  CHECK(workplace.run().errors.find("finished") != std::string::npos);
  CHECK_THAT(workplace.call({"explain", "first", "--trainer", STUB_TRAINER_PROGRAM}).output,
             Contains("which differs in the contents of its input files"));
}
