#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fsdp {

// Help at 80 columns: names in one column, what they mean in another. The help of `fsdp-run` itself
// shows the options of a run, whose word may be left out.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_description(const CLI::App* app) const override;
};

// Every option of `command` that its help shows; all have a long name.
std::vector<const CLI::Option*> shown_options(const CLI::App& command);

}  // namespace fsdp
