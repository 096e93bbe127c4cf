#include <catch2/catch.hpp>
#include <fstream>

#include "base/system/unix_time.h"
#include "tests/end_to_end/stub_runs.h"

// Figures belong to the run that their row describes. Otherwise the row names the problem.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

const std::string kDataOfItsOwn = "{train.steps: 5, device: cpu, data.train: set/games.csv}";

void write_games(const Workplace& workplace, const std::string& first_move) {
  std::filesystem::create_directories(workplace / "set");
  std::ofstream file(workplace / "set/games.csv");
  file << "Moves,Termination,Result\n";
  for (int i = 0; i < 64; ++i) file << "1. " + first_move + " e5 2. Nf3 Nc6,CHECKMATE,1-0\n";
  file.close();
  std::filesystem::last_write_time(workplace / "set/games.csv", {});
}

// Writes a trainer that copies these lines into the events file of its only rank.
void write_trainer(const Workplace& workplace, const std::string& lines) {
  std::ofstream(workplace / "lines") << lines;
  std::ofstream(workplace / "trainer") << "#!/bin/sh\ncp " + (workplace / "lines").string() +
                                              " \"${2%/*}/attempt-$4/events.rank0.jsonl\"\n";
  std::filesystem::permissions(workplace / "trainer", std::filesystem::perms::owner_all);
}

std::string line(int64_t sequence, int64_t time_unix_ms, decltype(Event::body) body) {
  return to_json_line({.sequence = sequence, .time_unix_ms = time_unix_ms, .body = body}) + '\n';
}

std::string started(int64_t steps_planned, int64_t time_unix_ms) {
  RunStarted started;
  started.steps_planned = steps_planned;
  return line(0, time_unix_ms, started);
}

std::string step(int64_t step, int64_t time_unix_ms) {
  StepDone done;
  done.step = step;
  done.loss = 1;
  done.step_time_ms = 10;
  return line(step, time_unix_ms, done);
}

}  // namespace

TEST_CASE("data that is edited during a sweep gives no result under the old data's name") {
  const Workplace workplace("  - {name: first}\n  - {name: second}\n", kDataOfItsOwn);
  write_games(workplace, "e4");
  Program sweep(workplace / ".", workplace.command({"experiment.yaml"}),
                {{"STUB_RULES", "point=first,step=3,await=" + (workplace / "edited").string()}});
  sweep.wait_for_error_text("first: started");
  write_games(workplace, "d4");
  std::ofstream(workplace / "edited") << "yes";
  const Ended ended = sweep.wait();
  CHECK(ended.status == 1);
  REQUIRE(rows(workplace).size() == 2);
  CHECK(rows(workplace)[0].status == RunStatus::kFailed);
  CHECK_THAT(rows(workplace)[0].reason,
             Contains("games.csv") && Contains("changed during the run"));
  CHECK(rows(workplace)[1].status == RunStatus::kFailed);
  CHECK_THAT(rows(workplace)[1].reason, Contains("changed since the run was planned"));

  CHECK(workplace.run().status == 0);  // with the edited data
  for (const ComparisonRow& row : rows(workplace)) CHECK(row.status == RunStatus::kFinished);
}

TEST_CASE("a run of which steps were lost is not finished, and its row warns for good") {
  const Workplace workplace("  - {name: one}\n", "{train.steps: 7, device: cpu}");
  const int64_t now = 1'700'000'000'000;
  std::string lines = started(7, now) + step(1, now);
  for (int i = 2; i <= 7; ++i) lines += "{\"version\":1,\"kind\":\"ste\n";
  write_trainer(workplace, lines + line(8, now, RunFinished{.steps = 7}));
  std::vector<std::string> command = workplace.command({"experiment.yaml"});
  command.back() = workplace / "trainer";
  const Ended ended = Program(workplace / ".", command).wait();
  CHECK(ended.status == 1);
  CHECK(rows(workplace)[0].status == RunStatus::kFailed);
  CHECK_THAT(rows(workplace)[0].reason, Contains("reports of 6 of its 7 steps are missing"));
  CHECK(rows(workplace)[0].skipped_lines == 6);
  const Ended report = workplace.call({"report"});
  CHECK_THAT(report.output + report.errors,
             Contains("6 lines of the ranks' reports could not be read"));
}

TEST_CASE("a trainer whose clock is an hour behind gives durations of its own, and that is told") {
  const Workplace workplace("  - {name: one}\n", "{train.steps: 1, device: cpu}");
  const int64_t behind = now_unix_ms() - 3'600'000;
  write_trainer(workplace, started(1, behind) + step(1, behind + 300) +
                               line(2, behind + 400, RunFinished{.steps = 1}));
  std::vector<std::string> command = workplace.command({"experiment.yaml"});
  command.back() = workplace / "trainer";
  const Ended ended = Program(workplace / ".", command).wait();
  CHECK(ended.status == 0);
  CHECK(rows(workplace)[0].total_time_ms == 400);
  CHECK(rows(workplace)[0].start_up_time_ms == 290);
  CHECK_THAT(ended.errors, Contains("s behind its runner's"));
}
