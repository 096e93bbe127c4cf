#include "base/system/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <memory>
#include <string>
#include <system_error>

#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr uintmax_t kLargestBytes = 5'000'000;

spdlog::level::level_enum level_of(LogLevel level) {
  using namespace spdlog::level;
  constexpr std::array kLevels{debug, info, warn, err, off};
  return kLevels[static_cast<size_t>(level)];
}

struct Destination {
  std::shared_ptr<spdlog::sinks::sink> sink{};
  LogLevel least = LogLevel::kOff;
  std::filesystem::path file{};
  uintmax_t bytes = 0;  // of the file
};

Destination& destination() {
  static Destination the_one;
  return the_one;
}

void use(Destination chosen) {
  chosen.sink->set_pattern("%Y-%m-%d %H:%M:%S.%e %-7l %n: %v");
  chosen.sink->set_level(level_of(chosen.least));
  destination() = std::move(chosen);
}

}  // namespace

void log_to_stderr(LogLevel least) {
  use({.sink = std::make_shared<spdlog::sinks::stderr_sink_mt>(), .least = least});
}

void log_to_file(const std::filesystem::path& file, LogLevel least) {
  std::error_code error;
  // Opening the file would create its folder, which may have been moved away.
  if (least == LogLevel::kOff || !std::filesystem::exists(file.parent_path(), error)) return;
  if (std::filesystem::is_symlink(file, error)) return;  // lines would go into another file
  uintmax_t bytes = std::filesystem::file_size(file, error);
  if (error) bytes = 0;
  if (bytes > kLargestBytes) {
    std::filesystem::rename(file, file.string() + ".1", error);
    bytes = 0;
  }
  try {
    use({.sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string()),
         .least = least,
         .file = file,
         .bytes = bytes});
  } catch (const std::exception&) {  // it cannot be opened
  }
}

std::filesystem::path log_file() { return destination().file; }

void log(LogLevel level, std::string_view part, std::string_view message) try {
  Destination& to = destination();
  if (!to.sink || !to.sink->should_log(level_of(level))) return;
  const std::string line = visible_line(message);
  to.sink->log({std::string(part), level_of(level), line});
  to.sink->flush();
  to.bytes += line.size();
  if (!to.file.empty() && to.bytes > kLargestBytes) log_to_file(to.file, to.least);
} catch (const std::exception&) {  // a full disk
}

}  // namespace fsdp
