#include "runner/progress/live_view.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "runner/progress/progress.h"
#include "runner/table/terminal_text.h"
#include "tests/runner/progress/progress_fixture.h"

using namespace fsdp;
using Lines = std::vector<std::string>;

namespace {

const ProgressClock::time_point kNow = ProgressClock::now();

std::vector<RunProgress> lab() {
  return {ended_progress("1 GPU", RunStatus::kFinished, 50, 25),
          ended_progress("4xDDP", RunStatus::kOutOfMemory, 3, 4),
          running_progress("4xFSDP", 50, 25, 400, kNow), planned_progress("FSDP batch 8", 50)};
}

constexpr std::array<size_t, 2> kLabEnded{0, 1};

Lines view(const std::vector<RunProgress>& runs, TerminalSize size, bool colour = false) {
  std::vector<size_t> ended;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].has_ended()) ended.push_back(i);
  }
  return live_view(runs, ended, size, kNow, colour);
}

// A sweep of `count` runs. The first `ended` have ended, and the next one runs.
std::vector<RunProgress> long_sweep(size_t count, size_t ended) {
  std::vector<RunProgress> runs;
  for (size_t i = 0; i < count; ++i) {
    const std::string point = "run " + std::to_string(i + 1);
    runs.push_back(i < ended    ? ended_progress(point, RunStatus::kFinished, 10, 2)
                   : i == ended ? running_progress(point, 10, 5, 100, kNow)
                                : planned_progress(point, 10));
  }
  return runs;
}

}  // namespace

TEST_CASE("the live view has a row for each run and a line that counts them") {
  CHECK(view(lab(), {100, 24}) ==
        Lines{"1 GPU         finished       50/50  500 ms  1.00 GiB  loss 2.5000       25s",
              "4xDDP         out_of_memory    3/3  500 ms  1.00 GiB  loss 2.5000        4s",
              "4xFSDP        [=====>     ]  25/50  400 ms  2.00 GiB  loss 2.5000  10s left",
              "FSDP batch 8  planned",
              "2 of 4 ended, 1 running  [===============>        ] 62 %  about 30s left"});
}

TEST_CASE("a narrow terminal loses figures first and then the middle of names") {
  CHECK(view(lab(), {70, 24})[2] ==
        "4xFSDP        [=====>     ]  25/50  400 ms  2.00 GiB  10s left");
  CHECK(view(lab(), {46, 24})[2] == "4xFSDP        [=====>     ]  25/50  10s left");
  CHECK(view(lab(), {25, 24})[3] == "FSDP…ch 8  planned");
  CHECK(view(lab(), {30, 24})[4] == "2 of 4 ended, 1 running");
  CHECK(view(lab(), {1, 1}).size() == 3);
}

TEST_CASE("no line is wider than the terminal less a column, whatever its size") {
  std::vector<RunProgress> runs = lab();
  runs.push_back(running_progress("eine sehr lange Bezeichnung 模型模型模型模型\n\033[2J", 100'000,
                                  9, 123'456, kNow));
  runs.push_back(running_progress("starting", 0, 0, 0, kNow));
  for (size_t columns = 20; columns < 140; ++columns) {
    for (const std::string& line : view(runs, {columns, 24})) {
      INFO(columns << ": " << line);
      CHECK(display_width(line) < columns);
      CHECK(line.find('\033') == std::string::npos);
    }
  }
}

TEST_CASE("more runs than fit: those that run, the last that ended, the next") {
  const Lines lines = view(long_sweep(100, 40), {80, 8});
  REQUIRE(lines.size() == 7);
  CHECK_THAT(lines[0], Catch::StartsWith("run 38 "));
  CHECK_THAT(lines[2], Catch::StartsWith("run 40 "));
  CHECK_THAT(lines[3], Catch::StartsWith("run 41  [=====>"));
  CHECK_THAT(lines[4], Catch::StartsWith("run 42  planned"));
  CHECK_THAT(lines[5], Catch::StartsWith("run 43  planned"));
  CHECK_THAT(lines[6], Catch::StartsWith("40 of 100 ended, 1 running"));
  CHECK(view(long_sweep(100, 0), {80, 8}).size() == 7);
  CHECK(view(long_sweep(100, 99), {80, 8}).size() == 7);
}

TEST_CASE("colours stand around a run's state and change nothing else") {
  const Lines plain = view(lab(), {100, 24});
  const Lines coloured = view(lab(), {100, 24}, /*colour=*/true);
  CHECK_THAT(coloured[0], Catch::Contains("\033[32mfinished     \033[0m"));
  for (size_t i = 0; i < plain.size(); ++i) {
    std::string without = coloured[i];
    for (size_t at = 0; (at = without.find('\033')) != std::string::npos;) {
      without.erase(at, without.find('m', at) - at + 1);
    }
    CHECK(without.substr(0, without.find_last_not_of(' ') + 1) == plain[i]);
  }
}

TEST_CASE("lines that a narrower terminal breaks take more rows") {
  CHECK(rows_taken(std::array<size_t, 3>{0, 40, 41}, 80) == 3);
  CHECK(rows_taken(std::array<size_t, 3>{0, 40, 41}, 40) == 4);
  CHECK(rows_taken(std::array<size_t, 1>{100}, 30) == 4);
}
