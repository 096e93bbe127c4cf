// Writes the log of both programs. A log that cannot be written stops nothing.
#include "base/system/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <memory>
#include <string>
#include <system_error>

#include "base/text/utf8.h"

namespace fsdp {
namespace {

constexpr size_t kLargestBytes = 5'000'000;

spdlog::level::level_enum level_of(LogLevel level) {
  using namespace spdlog::level;
  constexpr std::array kLevels{debug, info, warn, err, off};
  return kLevels[static_cast<size_t>(level)];
}

struct Destination {
  std::unique_ptr<spdlog::logger> logger{};
  std::filesystem::path file{};
};

Destination& destination() {
  static Destination the_one;
  return the_one;
}

void use(spdlog::sink_ptr sink, LogLevel least, const std::filesystem::path& file) {
  auto logger = std::make_unique<spdlog::logger>("", std::move(sink));
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %-7l %v");
  logger->set_level(level_of(least));
  logger->flush_on(level_of(least));
  logger->set_error_handler([](const std::string&) {});  // a full disk
  destination() = {std::move(logger), file};
}

}  // namespace

void log_to_stderr(LogLevel least) {
  use(std::make_shared<spdlog::sinks::stderr_sink_mt>(), least, {});
}

void log_to_file(const std::filesystem::path& file, LogLevel least) try {
  // Opening the file would create its folder, which may have been moved away.
  if (least == LogLevel::kOff || !std::filesystem::exists(file.parent_path())) return;
  if (std::filesystem::is_symlink(file)) return;  // lines would go into another file
  use(std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file.string(), kLargestBytes, 1),
      least, file);
} catch (const std::exception&) {  // it cannot be opened
}

std::filesystem::path log_file() { return destination().file; }

void log(LogLevel level, std::string_view part, std::string_view message) try {
  const auto& logger = destination().logger;
  if (!logger || !logger->should_log(level_of(level))) return;
  logger->log(level_of(level), std::string(part) + ": " + visible_line(message));
} catch (const std::exception&) {  // no memory
}

}  // namespace fsdp
