#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace fsdp {

// Formats help at 80 columns: names in one column, their meanings in another. The help of
// `fsdp-run` itself shows the options of `run`, because that word may be left out.
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

// Returns every option that the command's help shows; each has a long name.
std::vector<const CLI::Option*> shown_options(const CLI::App& command);

}  // namespace fsdp
