#pragma once

#include <array>
#include <filesystem>
#include <string_view>

#include "base/text/fields.h"

// Diagnostics of both programs. Each line has a time, a level and a part of the program. Messages
// to users on the terminal are not log lines. No call throws: lines that cannot be written are
// lost.
namespace fsdp {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
constexpr auto enum_names(LogLevel) {
  return std::array{"debug"sv, "info"sv, "warning"sv, "error"sv, "off"sv};
}

// Sends lines of at least this level to standard error. Before the first call lines go nowhere.
void log_to_stderr(LogLevel least);
// Appends lines to `file`, in an existing folder. A file that would exceed 5 MB becomes FILE.1.log,
// if it was FILE.log.
void log_to_file(const std::filesystem::path& file, LogLevel least);
// The file that lines go to; empty if they go to none.
std::filesystem::path log_file();

void log(LogLevel level, std::string_view part, std::string_view message);

}  // namespace fsdp
