#include <catch2/catch.hpp>
#include <iostream>
#include <sstream>

#include "runner/commands/console.h"
#include "runner/table/terminal_text.h"

namespace fsdp {
namespace {

// Returns the output of std::cout while `write` writes to it.
template <typename Write>
std::string shown(Write&& write) {
  std::ostringstream screen;
  std::streambuf* before = std::cout.rdbuf(screen.rdbuf());
  {
    const SafeStreams safe;
    write();
  }
  std::cout.rdbuf(before);
  return screen.str();
}

TEST_CASE("whoever writes to stdout, no terminal obeys it") {
  CHECK(shown([] { std::cout << "a\x1b[2J\tb\n\xc2\x9b" << 1.5 << "\r\n"; }) ==
        "a\\x1b[2J\tb\n\\u009b1.5\r\n");
  CHECK(shown([] { std::cout << "\xff" << std::endl; }) == "\\xff\n");
}

TEST_CASE("this program's colours pass, and no other sequence") {
  const std::string coloured =
      std::string(colour_of(RunStatus::kFinished)) + "finished" + std::string(kPlain) + '\n';
  CHECK(shown([&] { std::cout << coloured; }) == coloured);
  CHECK(shown([] { std::cout << "\x1b[8mhidden"; }) == "\\x1b[8mhidden");
}

TEST_CASE("a character that is written in two parts is one") {
  CHECK(shown([] { std::cout << "\xe4\xb8" << std::flush << "\xad" << std::flush; }) == "中");
  CHECK(shown([] { std::cout << "\xe4\xb8" << std::flush; }) == "\\xe4\\xb8");
}

TEST_CASE("an error of the file behind stdout is not lost") {
  std::streambuf* before = std::cout.rdbuf(nullptr);
  std::cout.clear();
  class Full : public std::streambuf {
  } full;
  std::cout.rdbuf(&full);
  {
    const SafeStreams safe;
    std::cout << "text" << std::flush;
    CHECK_FALSE(std::cout.good());
  }
  std::cout.rdbuf(before);
  std::cout.clear();
}

TEST_CASE("a program's output keeps every byte where no terminal is") {
  CHECK(shown([] { SafeStreams::write_program_output("\x1b[1m\xff\r"); }) == "\x1b[1m\xff\r");
}

}  // namespace
}  // namespace fsdp
