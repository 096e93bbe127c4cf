#include "base/system/log.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "base/files/input_file.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

using Catch::Contains;

// Turns the log off at the end of a test.
struct LogOff {
  ~LogOff() { log_to_stderr(LogLevel::kOff); }
};

TEST_CASE("a log line has its level and part, and no character that a terminal obeys") {
  const TemporaryFolder folder;
  const LogOff off;
  const auto file = folder.path() / "a.log";
  log_to_file(file, LogLevel::kInfo);
  CHECK(log_file() == file);
  log(LogLevel::kDebug, "store", "too little to be told");
  log(LogLevel::kWarning, "store", "{} \x1b[1m {0:d}");
  const std::string lines = read_input_file(file);
  CHECK_THAT(lines, Contains(" warning store: {} \\x1b[1m {0:d}\n") && !Contains("too little"));
}

TEST_CASE("a log of 5 MB makes room for the next lines, and one is kept") {
  const TemporaryFolder folder;
  const LogOff off;
  log_to_file(folder.path() / "a.log", LogLevel::kDebug);
  const std::string megabyte(1'000'000, 'x');
  for (int i = 0; i < 12; ++i) log(LogLevel::kDebug, "part", std::to_string(i) + ' ' + megabyte);
  CHECK_THAT(read_input_file(folder.path() / "a.log"), Contains("part: 11 x"));
  CHECK(std::filesystem::file_size(folder.path() / "a.1.log") <= 5'000'000);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "a.2.log"));
}

TEST_CASE("a log is not written through a link, nor into a folder that is missing") {
  const TemporaryFolder folder;
  const LogOff off;
  log_to_stderr(LogLevel::kOff);
  const auto target = folder.write("target", "");
  std::filesystem::create_symlink(target, folder.path() / "a.log");
  log_to_file(folder.path() / "a.log", LogLevel::kDebug);
  log_to_file(folder.path() / "missing" / "a.log", LogLevel::kDebug);
  log(LogLevel::kError, "part", "a line");
  CHECK(log_file().empty());
  CHECK(std::filesystem::file_size(target) == 0);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "missing"));
}

}  // namespace
}  // namespace fsdp
