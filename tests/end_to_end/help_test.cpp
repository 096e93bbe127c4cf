#include <catch2/catch.hpp>
#include <sstream>

#include "runner/commands/commands.h"
#include "runner/table/terminal_text.h"
#include "tests/end_to_end/stub_runs.h"

// Tests the output of --help, and the answers to mistyped options.
using namespace fsdp;
using Catch::Matchers::Contains;

TEST_CASE("every command's help fits 80 columns, describes every option and has examples") {
  const Workplace workplace("  - {name: one}\n");
  std::vector<std::string> names{""};
  CLI::App app;
  for (const Command& command : kCommands) {
    command.add_to(app);
    if (!app.get_subcommand(std::string(command.name))->get_group().empty()) {
      names.emplace_back(command.name);
    }
  }
  for (const std::string& name : names) {
    const Ended ended =
        name.empty() ? workplace.call({"--help"}) : workplace.call({name, "--help"});
    INFO(ended.output);
    CHECK(ended.status == 0);
    CHECK_THAT(ended.output, Contains("Examples:\n"));
    std::istringstream lines(ended.output);
    for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 80);
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    for (const CLI::Option* option : command->get_options()) {
      INFO(command->get_name() << ' ' << option->get_name());
      CHECK((option->get_group().empty() || !option->get_description().empty()));
    }
  }
}

TEST_CASE("an error that quotes what is long is short") {
  const Workplace workplace("  - {name: one}\n");
  const Ended ended = workplace.call({"check", "--launcher", std::string(100'000, '9')});
  CHECK(ended.status == 2);
  CHECK_THAT(ended.errors, Contains("--launcher: 999"));
  CHECK(ended.errors.size() < 10'000);
}
