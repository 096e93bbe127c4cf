#include <iostream>
#include <memory>

#include "runner/commands/commands.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {

CommandFunction add_schema_command(CLI::App& command) {
  const auto section = std::make_shared<std::string>();
  command.footer(R"(Examples:
  fsdp-run schema | less
  fsdp-run schema strategy                 the keys below it
  fsdp-run schema optimizer.learning_rate)");
  command.add_option("KEY", *section, "Only this key and those below it");
  return [section] {
    std::cout << (section->empty() ? experiment_reference() : experiment_reference(*section));
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
