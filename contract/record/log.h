#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "contract/text/fields.h"

// Diagnostics of both programs: a line each, with time, level and part of the program. What a user
// reads on the terminal is no log line. No call throws: what cannot be written is lost.
namespace fsdp {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
constexpr auto enum_names(LogLevel) {
  return std::array{"debug"sv, "info"sv, "warning"sv, "error"sv, "off"sv};
}

// Where lines go from now on, and from which level on; before the first call nowhere.
void log_to_stderr(LogLevel least);
// Appends to `file`, in a folder that is there. What is longer than 5 MB moves to FILE.1.
void log_to_file(const std::filesystem::path& file, LogLevel least);
// Where log_to_file lets lines go; empty: nowhere.
std::filesystem::path log_file();

void log(LogLevel level, std::string_view part, std::string_view message);

}  // namespace fsdp
