#include <iostream>

#include "runner/commands/commands.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {

CommandFunction add_schema_command(CLI::App& command) {
  command.footer(R"(Examples:
  fsdp-run schema | less
  fsdp-run schema | grep -A3 strategy)");
  return [] {
    std::cout << experiment_reference();
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
