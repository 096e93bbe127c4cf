#include <iostream>

#include "runner/commands/commands.h"
#include "runner/experiment/keys_page.h"

namespace fsdp {

CommandFunction add_schema_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("schema", "Document every key of an experiment");
  command.footer(R"(Examples:
  fsdp-run schema | less
  fsdp-run schema | grep -A3 strategy)");
  return [] {
    std::cout << experiment_reference();
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
