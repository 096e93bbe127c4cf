#include <catch2/catch.hpp>

#include "runner/commands/console.h"
#include "tests/temporary_folder.h"

namespace fsdp {
namespace {

// The excerpt at line:column of a file that holds `text`.
std::string excerpt(const std::string& text, const std::string& line_and_column) {
  const TemporaryFolder folder;
  return source_excerpt(folder.write("lab.yaml", text).string() + ':' + line_and_column);
}

}  // namespace

TEST_CASE("an excerpt is the line and a caret below the column") {
  CHECK(excerpt("experiment: lab\nbase:\n  kind: fdsp\n", "3:9") ==
        "    3 |   kind: fdsp\n"
        "      |         ^\n");
  CHECK(excerpt("a: b", "1:1") ==
        "    1 | a: b\n"
        "      | ^\n");
  CHECK(excerpt("a: b\n", "1:5") ==
        "    1 | a: b\n"
        "      |     ^\n");
}

TEST_CASE("the caret stands below the column whatever is before it") {
  CHECK(excerpt("a:\tb\n", "1:4") ==
        "    1 | a:      b\n"
        "      |         ^\n");
  CHECK(excerpt("größe: 表 x\n", "1:14") ==
        "    1 | größe: 表 x\n"
        "      |           ^\n");
  CHECK(excerpt("\xef\xbb\xbfkey: x\r\n", "1:6") ==
        "    1 | key: x\n"
        "      |      ^\n");
  CHECK(excerpt("a: \xe9\x1b[31m\xc2\x9b x\n", "1:13") ==
        "    1 | a: \\xe9\\x1b[31m\\u009b x\n"
        "      |                       ^\n");
}

TEST_CASE("a long line is cut around the column") {
  const std::string long_line = "k: [" + std::string(200, 'a') + "HERE" + std::string(200, 'b');
  CHECK(excerpt(long_line, "1:205") == "    1 | …" + std::string(60, 'a') + "HERE" +
                                           std::string(26, 'b') + "…\n" + "      |  " +
                                           std::string(60, ' ') + "^\n");
  const std::string huge = std::string(5'000'000, 'a') + 'X';
  CHECK(excerpt(huge, "1:5000001") ==
        "    1 | …" + std::string(60, 'a') + "X\n" + "      |  " + std::string(60, ' ') + "^\n");
}

TEST_CASE("there is no excerpt where there is no line to show") {
  CHECK(excerpt("a: b\n", "7:1") == "");
  CHECK(excerpt("a: b\n", "1") == "");
  CHECK(excerpt("a: b\n", "0:0") == "");
  CHECK(excerpt("a: b\n", "1:x") == "");
  CHECK(source_excerpt("") == "");
  CHECK(source_excerpt("lab.yaml") == "");
  CHECK(source_excerpt("/nowhere/lab.yaml:1:1") == "");
  CHECK(source_excerpt("--set train.seed=a:1:1") == "");
  CHECK(source_excerpt("/tmp:1:1") == "");
  CHECK(source_excerpt("/dev/zero:1:1") == "");
}

}  // namespace fsdp
