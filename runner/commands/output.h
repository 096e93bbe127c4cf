#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/commands/options.h"

namespace fsdp {

// The options --format and --output: the format and the place of a command's text. The first format
// is for people who read in a terminal.
template <NamedEnum Format>
struct Output {
  std::optional<Format> asked;
  std::filesystem::path file;  // empty: stdout

  // Returns the requested format, else the one of the file's extension: lab.html. Files with .txt
  // or no extension hold text. Throws ConfigError (place: --output) for another extension.
  Format format() const;
};

// Returns the name of the format that files with this extension have; empty: unknown extension.
std::string_view format_of_extension(const std::filesystem::path& extension);

// True if files with this extension hold text: .txt, or none.
bool is_of_text(const std::filesystem::path& extension);

// Writes to the file or, if `file` is empty, to stdout.
void write_output(const std::filesystem::path& file, std::string_view text);

template <NamedEnum Format>
Format Output<Format>::format() const {
  if (asked) return *asked;
  const std::string extension = file.extension();
  const std::string_view name = format_of_extension(extension);
  if (name.empty() && is_of_text(extension)) return Format{};
  const std::optional<Format> format = enum_from_name<Format>(name);
  if (format) return *format;
  constexpr auto kNames = enum_names(Format{});
  throw ConfigError("--output", "",
                    file.string() + " is named like a file of " +
                        (name.empty() ? extension.substr(1) : std::string(name)) +
                        "; allowed are " + joined({kNames.begin(), kNames.end()}) +
                        ", by the name or --format");
}

template <NamedEnum Format>
void add_output_options(CLI::App& command, Output<Format>& output) {
  constexpr auto kNames = enum_names(Format{});
  std::string names(kNames[0]);
  for (size_t i = 1; i < kNames.size(); ++i) {
    names += (i + 1 == kNames.size() ? " or " : ", ") + std::string(kNames[i]);
  }
  command
      .add_option_function<std::string>(
          "--format", [&output](const auto& word) { output.asked = enum_from_name<Format>(word); },
          names + "; also by the name of --output")
      ->check(CLI::IsMember(std::vector<std::string>(kNames.begin(), kNames.end())))
      ->option_text("FORMAT=" + std::string(kNames[0]));
  add_option(command, "--output FILE", output.file, "Write it there");
}

}  // namespace fsdp
