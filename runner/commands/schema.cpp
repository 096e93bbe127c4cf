#include <iostream>
#include <memory>
#include <sstream>
#include <vector>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/commands/commands.h"
#include "runner/experiment/experiment_keys.h"

namespace fsdp {
namespace {

constexpr std::string_view kKeyIndent = "  ";

// Returns "strategy.kind" for "  strategy.kind: single, ddp, ...", empty for every other line.
std::string_view key_of(std::string_view line) {
  if (!line.starts_with(kKeyIndent) || line.starts_with("   ")) return {};
  return line.substr(kKeyIndent.size(), line.find(':') - kKeyIndent.size());
}

// Returns a key with the text below it. Throws ConfigError if there is no such key.
std::string section_of(const std::string& reference, const std::string& section) {
  std::string text;
  std::vector<std::string> keys;
  bool is_inside = false;
  std::istringstream lines(reference);
  for (std::string line; std::getline(lines, line);) {
    const std::string_view key = key_of(line);
    if (!key.empty()) {
      keys.emplace_back(key);
      is_inside = key == section || key.starts_with(section + '.');
    } else if (line.empty() || line[0] != ' ') {
      is_inside = false;
    }
    if (is_inside) text += line + '\n';
  }
  if (!text.empty()) return text;
  throw ConfigError("", section,
                    "no key of an experiment begins so; `fsdp-run schema` lists them" +
                        suggestion(section, keys));
}

}  // namespace

CommandFunction add_schema_command(CLI::App& command) {
  const auto section = std::make_shared<std::string>();
  command.footer(R"(Examples:
  fsdp-run schema | less
  fsdp-run schema strategy                 the keys below it
  fsdp-run schema optimizer.learning_rate)");
  command.add_option("KEY", *section, "Only this key and those below it");
  return [section] {
    const std::string reference = experiment_reference();
    std::cout << (section->empty() ? reference : section_of(reference, *section));
    return ExitCode::kOk;
  };
}

}  // namespace fsdp
