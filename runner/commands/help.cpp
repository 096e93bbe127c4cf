#include "runner/commands/help.h"

#include <sstream>

namespace fsdp {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kMeaningColumn = 26;

// `name`, and `meaning` beside it, or below where the name is long.
std::string entry(const std::string& name, const std::string& meaning) {
  std::string text = "  " + name;
  size_t column = text.size();
  if (column + 2 > kMeaningColumn) {
    text += '\n';
    column = 0;
  }
  text.append(kMeaningColumn - column, ' ');
  column = kMeaningColumn;
  bool is_first = true;
  std::istringstream words(meaning);
  for (std::string word; words >> word;) {
    if (!is_first && column + 1 + word.size() > kWidth) {
      text += '\n' + std::string(kMeaningColumn, ' ');
      column = kMeaningColumn;
    } else if (!is_first) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
    is_first = false;
  }
  return text + '\n';
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
  std::string text = app->get_description();
  size_t line_start = 0;
  while (text.size() - line_start > kWidth) {
    const size_t space = text.rfind(' ', line_start + kWidth);
    if (space == std::string::npos || space <= line_start) break;
    text[space] = '\n';
    line_start = space + 1;
  }
  return text.empty() ? text : text + '\n';
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty() || option->get_lnames().empty()) continue;
    names.push_back("--" + option->get_lnames().front());
  }
  return names;
}

}  // namespace fsdp
