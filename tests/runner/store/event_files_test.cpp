#include "runner/store/event_files.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "tests/runner/store/store_fixture.h"

namespace fsdp {
namespace {

struct Attempt {
  Attempt() { std::filesystem::create_directories(paths.attempt(1)); }

  void append(int rank, const std::string& text) {
    std::ofstream(paths.events(1, rank), std::ios::app) << text;
  }
  EventTail tail(int ranks) {
    return EventTail(paths, 1, ranks,
                     [this](const std::string& warning) { warnings.push_back(warning); });
  }

  ResultsFolder results;
  RunPaths paths{results.path() / "run"};
  std::vector<std::string> warnings;
};

// Line 1 has the sequence 0.
std::string line(int64_t number) {
  return to_json_line(event(number - 1, number, step_done(number, 10))) + '\n';
}

std::vector<int64_t> lines(const std::vector<Event>& events) {
  std::vector<int64_t> numbers;
  for (const Event& event : events) numbers.push_back(event.sequence + 1);
  return numbers;
}

using Lines = std::vector<int64_t>;

TEST_CASE("each poll returns what is new in each rank's file") {
  Attempt attempt;
  EventTail tail = attempt.tail(2);
  CHECK(tail.poll()[1].empty());
  attempt.append(1, line(1) + line(2));
  auto events = tail.poll();
  CHECK(events[0].empty());
  CHECK(lines(events[1]) == Lines{1, 2});
  attempt.append(0, line(1));
  attempt.append(1, line(3));
  events = tail.poll();
  CHECK(lines(events[0]) == Lines{1});
  CHECK(lines(events[1]) == Lines{3});
  CHECK(tail.poll()[1].empty());
}

TEST_CASE("a torn last line waits for its rest, wherever it is torn") {
  const std::string whole = line(2);
  for (size_t torn = 1; torn < whole.size(); torn += 7) {
    Attempt attempt;
    EventTail tail = attempt.tail(1);
    attempt.append(0, line(1) + whole.substr(0, torn));
    REQUIRE(lines(tail.poll()[0]) == Lines{1});
    attempt.append(0, whole.substr(torn) + line(3));
    REQUIRE(lines(tail.poll()[0]) == Lines{2, 3});
    REQUIRE(attempt.warnings.empty());
  }
}

TEST_CASE("a long file is returned in parts, a longer line than a part as a whole") {
  Attempt attempt;
  const std::string long_reason(size_t{17} << 20, 'x');
  constexpr int64_t kLines = 60'000;
  std::string text;
  for (int64_t sequence = 1; sequence <= kLines; ++sequence) text += line(sequence);
  text += to_json_line(event(kLines, 0, RunFailed{.reason = long_reason})) + '\n';
  REQUIRE(text.size() > size_t{2} * (17 << 20));
  attempt.append(0, text);
  EventTail tail = attempt.tail(1);
  std::vector<Event> events = tail.poll()[0];
  CHECK_FALSE(tail.at_end());
  CHECK(events.size() < kLines);
  while (!tail.at_end()) std::ranges::move(tail.poll()[0], std::back_inserter(events));
  REQUIRE(events.size() == kLines + 1);
  for (int64_t i = 0; i <= kLines; ++i) REQUIRE(events[static_cast<size_t>(i)].sequence == i);
  CHECK(std::get<RunFailed>(events.back().body).reason == long_reason);
  CHECK(attempt.warnings.empty());
}

TEST_CASE("a corrupt line is skipped, counted and warned about; an unknown kind is only skipped") {
  Attempt attempt;
  EventTail tail = attempt.tail(1);
  attempt.append(0, line(1) + "{\"version\":1,\"ki\n" + line(3));
  attempt.append(0, "{\"version\":1,\"kind\":\"of tomorrow\",\"sequence\":3,\"time_unix_ms\":4}\n");
  attempt.append(0, std::string("\0\0\0\0\n", 5) + line(6));
  CHECK(lines(tail.poll()[0]) == Lines{1, 3, 6});
  CHECK(tail.skipped_lines() == std::vector<int64_t>{2});
  REQUIRE(attempt.warnings.size() == 2);
  CHECK_THAT(attempt.warnings[0], Catch::Contains("events.rank0.jsonl:2: "));
  CHECK_THAT(attempt.warnings[1], Catch::Contains("events.rank0.jsonl:5: "));
}

TEST_CASE("of a file of damaged lines a few are told of, and all are counted") {
  Attempt attempt;
  EventTail tail = attempt.tail(1);
  for (int i = 0; i < 1000; ++i) attempt.append(0, "damaged\n");
  CHECK(tail.poll()[0].empty());
  CHECK(tail.skipped_lines() == std::vector<int64_t>{1000});
  REQUIRE(attempt.warnings.size() == 10);
  CHECK_THAT(attempt.warnings[9], Catch::Contains("are counted, but not shown"));
}

TEST_CASE(
    "lines that are missing by their sequence, repeated or far too long are counted as lost") {
  Attempt attempt;
  EventTail tail = attempt.tail(2);
  attempt.append(1, line(1) + line(4) + "torn{\n" + line(7) + line(7) + line(8));
  CHECK(lines(tail.poll()[1]) == Lines{1, 4, 7, 8});
  // Lost: lines 2 and 3, lines 5 and 6 (one of them is torn), and the second line 7.
  CHECK(tail.skipped_lines() == std::vector<int64_t>{0, 5});
  CHECK(attempt.warnings.size() == 4);
  CHECK_THAT(attempt.warnings[0], Catch::Contains("2 lines before this one are missing"));

  attempt.append(0, line(1) + std::string(size_t{65} << 20, 'x'));
  std::vector<Event> events;
  const auto poll_all = [&] {
    do {
      std::ranges::move(tail.poll()[0], std::back_inserter(events));
    } while (!tail.at_end());
  };
  poll_all();
  attempt.append(0, "x\n" + line(3));
  poll_all();
  CHECK(lines(events) == Lines{1, 3});
  CHECK(tail.skipped_lines() == std::vector<int64_t>{1, 5});
}

TEST_CASE("lost lines are kept in the store, once, however often files are read") {
  Attempt attempt;
  Store store(attempt.results.path());
  const int64_t run_id = running_run(store, 2);
  attempt.append(0, line(1) + "torn\n" + line(3) + "torn\n");
  attempt.append(1, "torn\n");
  for (int i = 0; i < 2; ++i) {
    EventTail tail = attempt.tail(2);
    const auto events = tail.poll();
    store.ingest(run_id, 1, events, tail.skipped_lines());
  }
  CHECK(store.comparison("lab").front().skipped_lines == 3);
}

TEST_CASE("a new tail starts over, and the store records only what it lacks") {
  Attempt attempt;
  Store store(attempt.results.path());
  const int64_t run_id = running_run(store, 1);
  attempt.append(0, line(1) + line(2));
  store.ingest(run_id, 1, attempt.tail(1).poll());
  attempt.append(0, line(3) + line(4).substr(0, 20));
  store.ingest(run_id, 1, attempt.tail(1).poll());
  CHECK(store.comparison("lab").front().steps == 3);
}

TEST_CASE("a file that cannot be read is an error with its name") {
  Attempt attempt;
  std::filesystem::create_directory(attempt.paths.events(1, 0));
  CHECK_THROWS_WITH(attempt.tail(1).poll(), Catch::Contains("events.rank0.jsonl"));
}

}  // namespace
}  // namespace fsdp
