#include <iostream>

#include "runner/commands/commands.h"
#include "runner/experiment/reference.h"

namespace fsdp {

CommandFunction add_schema_command(CLI::App& app) {
  app.add_subcommand("schema", "Document every key of an experiment");
  return [] {
    std::cout << experiment_reference();
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
