#include <catch2/catch.hpp>
#include <sstream>

#include "runner/table/terminal_text.h"
#include "tests/end_to_end/stub_runs.h"
#include "tests/end_to_end/terminal.h"

// Output for people is no wider than their terminal. tests/runner/progress/ has the live view.
namespace fsdp {
namespace {

using Words = std::vector<std::string>;

const Words kWidths{"60", "80", "120", "200"};

// Leaves out the path of the clone, as its length differs between hosts. Paths are never broken
// into lines.
void check_widths(const std::string& text, size_t width) {
  constexpr std::string_view kClone = FSDP_EXPERIMENTS_FOLDER;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    if (const size_t at = line.find(kClone); at != std::string::npos) line.erase(at, kClone.size());
    CHECK(display_width(line) <= width);
  }
}

// Checks the call's output in each of the widths. Returns false if the call is refused. A refusal
// is the same in each width and is not checked.
bool check_call(const Workplace& workplace, const Words& words, const Words& widths = kWidths) {
  Words command{FSDP_RUN_PROGRAM};
  command.insert(command.end(), words.begin(), words.end());
  for (const std::string& width : widths) {
    const Ended ended = Program(workplace / "", command, {{"COLUMNS", width}}).wait();
    if (ended.status != 0) return false;
    check_widths(ended.output, std::stoul(width));
  }
  return true;
}

// Returns the names of the shipped experiments, each with the names of its profiles.
std::map<std::string, Words> shipped_experiments(const Workplace& workplace) {
  std::map<std::string, Words> found;
  for (const auto& entry : std::filesystem::directory_iterator(FSDP_EXPERIMENTS_FOLDER)) {
    if (entry.path().extension() != ".yaml") continue;
    const Ended ended = workplace.call({"complete", "--", "check", entry.path(), "--profile", ""});
    std::istringstream candidates(ended.output);  // each line: a name, a tab, its meaning
    Words& profiles = found[entry.path().stem()];
    for (std::string line; std::getline(candidates, line);) {
      profiles.push_back(line.substr(0, line.find('\t')));
    }
  }
  return found;
}

std::string file_of(const std::string& name) {
  return std::filesystem::path(FSDP_EXPERIMENTS_FOLDER) / (name + ".yaml");
}

// True if a script has to make the experiment's model first.
bool needs_made_model(const std::string& experiment) {
  return experiment == "smollm2" || experiment == "methods";
}

TEST_CASE("no line of check of a shipped experiment is longer than the terminal") {
  const Workplace workplace("  - {name: one}\n");
  const auto experiments = shipped_experiments(workplace);
  CHECK(experiments.size() >= 7);
  for (const auto& [name, profiles] : experiments) {
    int checked = 0;
    for (const std::string& profile : profiles) {
      for (const char* launcher : {"local", "slurm"}) {
        INFO(name << ", profile " << profile << ", " << launcher);
        // A text that is never broken into lines is too wide for the narrowest terminal. The wider
        // ones show how lines are broken, once for each experiment.
        const bool is_sound = check_call(
            workplace, {"check", file_of(name), "--profile", profile, "--launcher", launcher},
            checked == 0 ? kWidths : Words{kWidths.front()});
        checked += is_sound ? 1 : 0;
      }
    }
    INFO(name);
    if (!needs_made_model(name)) CHECK(checked > 0);
  }
}

TEST_CASE(
    "no line of a run, report or status of a shipped experiment is longer than the terminal") {
  const Workplace workplace("  - {name: one}\n");
  for (const auto& [name, profiles] : shipped_experiments(workplace)) {
    if (needs_made_model(name)) continue;
    INFO(name);
    Terminal terminal(workplace / "",
                      workplace.command({file_of(name), "--profile", "cpu", "--share",
                                         "train.steps=3", "--results", name}),
                      60, 30);
    CHECK(widest_line(terminal.read_to_end()) <= 60);
    for (const char* command : {"report", "status"}) {
      CHECK(check_call(workplace, {command, "--results", name}));
    }
  }
}

TEST_CASE("no line of report or status is longer than the terminal, however long names are") {
  const Workplace workplace(
      "  - {name: a point with a name of several words that say little and go on}\n"
      "  - {name: a point with a name of several other words that say little and go on}\n"
      "  - {name: 模型 模型 模型 模型 模型 模型 模型 模型 模型 模型 模型}\n");
  REQUIRE(workplace.run().status == 0);
  for (const char* command : {"report", "status"}) CHECK(check_call(workplace, {command}));
}

TEST_CASE("no line of check is longer than the terminal, however long names are") {
  const Workplace workplace(
      "  - {name: a point with a name of several words that say little}\n"
      "  - {name: another point with a name of several words, checkpoint: {at_end: true}}\n");
  CHECK(check_call(workplace, {"check", "experiment.yaml"}));
}

}  // namespace
}  // namespace fsdp
