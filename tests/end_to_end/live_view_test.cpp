#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/end_to_end/stub_runs.h"
#include "tests/end_to_end/terminal.h"

// Tests the output of a running sweep for users and for programs.
using namespace fsdp;
using Catch::Matchers::Contains;

namespace {

// The first run waits before its second step until the workplace has the file `go`.
Variables waiting_for_go(const Workplace& workplace) {
  return {{"STUB_RULES", "point=first,step=2,await=" + (workplace / "go").string()}};
}

void go(const Workplace& workplace) { std::ofstream(workplace / "go") << '\n'; }

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("a terminal shows a row per run, follows its size, and ends with the table alone") {
  const Workplace workplace("  - {name: first point}\n  - {name: second point}\n",
                            "{train.steps: 3, device: cpu}");
  Terminal terminal(workplace / ".", workplace.command({"experiment.yaml"}), 100, 30,
                    waiting_for_go(workplace));
  CHECK_THAT(terminal.read_until("0 of 2 ended, 1 running"),
             Contains("first point") && Contains("second point") && Contains("planned"));
  terminal.read_until("1/3");
  terminal.resize(40, 30);
  terminal.read_until("\033[J");
  terminal.read_until("\033[J");  // the new size applies from here on
  const std::string narrow = terminal.read_until("1 running");
  CHECK_THAT(narrow, Contains("first point") && !Contains("loss"));
  CHECK(widest_line(narrow) < 40);
  go(workplace);
  const std::string end = terminal.read_to_end();
  const std::string after_last_clear = end.substr(end.rfind("\033[J"));
  CHECK_THAT(after_last_clear, Contains("step time") && !Contains("ended"));
}

TEST_CASE("NO_COLOR leaves the movements of the cursor, and no colour") {
  const Workplace workplace("  - {name: one}\n");
  Terminal terminal(workplace / ".", workplace.command({"experiment.yaml"}), 100, 30,
                    {{"NO_COLOR", "1"}});
  const std::string all = terminal.read_to_end();
  CHECK_THAT(all, Contains("\033[J") && !Catch::Matchers::Matches("[^]*\033\\[[0-9]*m[^]*"));
}

TEST_CASE("a terminal that cannot move its cursor gets lines") {
  const Workplace workplace("  - {name: one}\n");
  Terminal terminal(workplace / ".", workplace.command({"experiment.yaml"}), 100, 30,
                    {{"TERM", "dumb"}});
  CHECK_THAT(terminal.read_to_end(),
             Contains("one: started, 1 rank, 5 steps") && !Contains("\033[J"));
}

TEST_CASE("--quiet leaves warnings, failures and the table") {
  const Workplace workplace("  - {name: sound}\n  - {name: broken}\n",
                            "{train.steps: 5, train.max_steps: 4, device: cpu}");
  const Ended ended = workplace.run({"experiment.yaml", "--quiet"},
                                    {{"STUB_RULES", "point=broken,fail=no such thing"}});
  CHECK(ended.status == 1);
  CHECK_THAT(ended.output, Contains("sound") && Contains("finished"));
  CHECK_THAT(ended.errors, Contains("broken: failed: rank 0: no such thing") &&
                               Contains("warning: train.max_steps cuts the run short") &&
                               !Contains("started") && !Contains("sound: finished"));
}

TEST_CASE("--json tells a program what happens, and the table at the end, in lines of JSON") {
  const Workplace workplace("  - {name: \"a \\\"point\\\"\"}\n  - {name: broken}\n");
  const Ended ended = workplace.run({"experiment.yaml", "--json"},
                                    {{"STUB_RULES", "point=broken,step=3,fail=no such thing"}});
  CHECK(ended.status == 1);
  CHECK(ended.errors.empty());
  std::vector<std::string> kinds;
  nlohmann::json first_end, last_end, report;
  for (const nlohmann::json& line : json_lines(ended.output)) {
    const std::string kind = line.at("kind");
    if (kind != "run_progress") kinds.push_back(kind);
    if (kind == "run_ended") (first_end.is_null() ? first_end : last_end) = line;
    if (kind == "report") report = line;
  }
  CHECK(kinds == std::vector<std::string>{"message", "run_planned", "run_planned", "run_started",
                                          "run_ended", "run_started", "run_ended", "report"});
  CHECK(first_end.at("point") == "a \"point\"");
  CHECK(first_end.at("status") == "finished");
  CHECK(last_end.at("status") == "failed");
  CHECK_THAT(last_end.at("reason").get<std::string>(), Contains("no such thing"));
  CHECK(std::filesystem::exists(workplace / last_end.at("log").get<std::string>()));
  CHECK(report.at("exit_status") == 1);
  REQUIRE(report.at("report").at("rows").size() == 2);
  CHECK(report.at("report").at("rows")[1].at("status") == "failed");
}

TEST_CASE("--json tells of a run's steps while it runs") {
  const Workplace workplace("  - {name: first}\n", "{train.steps: 3, device: cpu}");
  Terminal terminal(workplace / ".", workplace.command({"experiment.yaml", "--json"}), 100, 30,
                    waiting_for_go(workplace));
  const std::string progress = terminal.read_until("\"sweep_seconds_left\"");
  CHECK_THAT(progress, Contains("\"kind\":\"run_progress\"") && Contains("\"step\":1"));
  go(workplace);
  CHECK_THAT(terminal.read_to_end(), Contains("\"kind\":\"report\""));
}

TEST_CASE("--quiet and --json exclude each other") {
  const Workplace workplace("  - {name: one}\n");
  const Ended ended = workplace.run({"experiment.yaml", "--json", "--quiet"});
  CHECK(ended.status == 2);
  CHECK_THAT(ended.errors, Contains("--quiet"));
}
