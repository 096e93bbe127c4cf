#include <iostream>
#include <memory>

#include "runner/commands/commands.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {

CommandFunction add_schema_command(CLI::App& command) {
  const auto section = std::make_shared<std::string>();
  const auto as_json = std::make_shared<bool>();
  command.footer(R"(Examples:
  fsdp-run schema | less
  fsdp-run schema strategy                 the keys below it
  fsdp-run schema optimizer.learning_rate
  fsdp-run schema --json > fsdp-run.schema.json      for editors)");
  CLI::Option* key = command.add_option("KEY", *section, "Only this key and those below it");
  command.add_flag("--json", *as_json, "Print a JSON Schema of experiments, for editors")
      ->excludes(key);
  return [section, as_json] {
    std::cout << (*as_json           ? experiment_schema()
                  : section->empty() ? experiment_reference()
                                     : experiment_reference(*section));
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
