#include <stdio.h>

#include <catch2/catch.hpp>

#include "base/system/program.h"

namespace fsdp {
namespace {

// Returns the output and errors of /bin/sh for the command.
std::string printed_by_shell(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  std::string output;
  for (int c; (c = fgetc(pipe)) != EOF;) output += static_cast<char>(c);
  CHECK(pclose(pipe) == 0);
  return output;
}

std::string through_shell(const std::string& word) {
  return printed_by_shell("printf %s " + shell_quoted(word));
}

TEST_CASE("a quoted word comes out of a shell as it went in") {
  for (const std::string word : {
           "",
           "plain/word-1.yaml",
           " ",
           "two words",
           "it's",
           "'",
           "''",
           "'\\''",
           "\\",
           "\\'",
           "end\\",
           "$(touch /nowhere/file)",
           "`echo no`",
           "$HOME ${HOME}",
           "a;b&c|d>e<f",
           "* ? [a-z] {a,b} ~ ~root",
           "# no comment",
           "!history",
           "\"double\" 'single'",
           "line\nfeed, tab\t, return\r.",
           "ends in a line feed\n",
           "-n",
           "--",
           "%s %d \\n",
           "größer 大",
       }) {
    INFO(word);
    CHECK(through_shell(word) == word);
  }
}

TEST_CASE("every byte but zero goes through a shell, alone and among others") {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    INFO(byte);
    CHECK(through_shell(one) == one);
    all += one;
  }
  CHECK(through_shell(all) == all);
}

TEST_CASE("quoted words stay words of their own, and may be a variable's value") {
  CHECK(printed_by_shell("printf '<%s>' " + shell_quoted("it's one") + ' ' + shell_quoted("") +
                         ' ' + shell_quoted("two")) == "<it's one><><two>");
  CHECK(printed_by_shell("VALUE=" + shell_quoted("a 'b' ~ $c") + " printenv VALUE") ==
        "a 'b' ~ $c\n");
}

TEST_CASE("what means nothing to a shell is not quoted") {
  CHECK(shell_quoted("/results/runs/lab/4xFSDP-0123abcd/run.yaml") ==
        "/results/runs/lab/4xFSDP-0123abcd/run.yaml");
  CHECK(shell_quoted("cuda:0,1") == "cuda:0,1");
}

}  // namespace
}  // namespace fsdp
