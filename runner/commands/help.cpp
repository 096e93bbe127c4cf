#include "runner/commands/help.h"

#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

constexpr size_t kHelpWidth = 80;
constexpr size_t kMeaningColumn = 26;

// Puts `meaning` beside `name`, or below it if the name is long.
std::string entry(const std::string& name, const std::string& meaning) {
  const std::string before = "  " + name;
  if (before.size() + 2 <= kMeaningColumn)
    return wrapped(before, meaning, kMeaningColumn, kHelpWidth);
  return before + '\n' + wrapped("", meaning, kMeaningColumn, kHelpWidth);
}

}  // namespace

std::string HelpFormatter::make_usage(const CLI::App* app, std::string name) const {
  if (app->get_parent() != nullptr) return Formatter::make_usage(app, name);
  return "Usage: fsdp-run FILE [OPTIONS]\n       fsdp-run COMMAND ...\n";
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string name = make_option_name(option, is_positional) + make_option_opts(option);
  name.erase(name.find_last_not_of(' ') + 1);
  return entry(name, make_option_desc(option));
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_positional()) return "";
  const std::string& text = option->get_option_text();
  if (!text.empty()) return ' ' + text;
  const bool takes_value = option->get_items_expected_max() > 0;
  return takes_value ? ' ' + option->get_type_name() : "";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  std::string text = Formatter::make_help(app, name, mode);
  text.erase(text.find_last_not_of('\n') + 1);
  return text + '\n';
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  const std::string text = app->get_description();
  return text.empty() ? text : wrapped("", text, 0, kHelpWidth);
}

std::vector<const CLI::Option*> shown_options(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) {
    return !option->get_group().empty() && !option->get_lnames().empty();
  });
}

}  // namespace fsdp
