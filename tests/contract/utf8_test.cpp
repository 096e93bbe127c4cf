#include "base/text/utf8.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "base/text/csv.h"
#include "base/text/json.h"
#include "base/text/white_space.h"

namespace fsdp {
namespace {

std::string csv(std::string_view text) {
  std::string out;
  append_csv_text(out, text);
  return out;
}

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

bool is_harmless(std::string_view text) {
  while (!text.empty()) {
    if (utf8_length(text) == 0 || begins_with_control_character(text)) return false;
    text.remove_prefix(utf8_length(text));
  }
  return true;
}

TEST_CASE("what a terminal would obey becomes an escape that is read") {
  CHECK(visible_line("a\nb\tc\r\x1b[2J\x7f") == "a\\nb\\tc\\r\\x1b[2J\\x7f");
  CHECK(visible_line("\xc2\x9b"
                     "31m") == "\\u009b31m");
  CHECK(visible_line("\u202Eevil\u2069\u2028") == "\\u202eevil\\u2069\\u2028");
  CHECK(visible_line("\xff\xe4\xb8") == "\\xff\\xe4\\xb8");
  CHECK(visible_line(std::string_view("\0", 1)) == "\\x00");
  CHECK(visible_lines("a\n\tb\r\nc\rd\x1b") == "a\n\tb\r\nc\\rd\\x1b");
}

TEST_CASE("ordinary text of any script stays as it is") {
  for (const std::string text :
       {"4×DDP ±1", "Größe", "模型", "実験", "👩‍🔬", "e\u0301", "مرحبا", ""}) {
    CHECK(visible_line(text) == text);
    CHECK(valid_utf8(text) == text);
    CHECK(csv(text) == text);
    CHECK(json(text) == '"' + text + '"');
  }
}

TEST_CASE("any bytes are made one harmless line, and a string of JSON that says what is valid") {
  std::mt19937_64 random(24);
  for (int i = 0; i < 2'000; ++i) {
    std::string text(random() % 12, ' ');
    for (char& c : text) c = static_cast<char>(random() % 4 == 0 ? 0xe2 : random());
    CAPTURE(i);
    if (!is_harmless(visible_line(text)) || !is_harmless(json(text)))
      FAIL_CHECK(visible_line(text));
    if (nlohmann::json::parse(json(text)) != valid_utf8(text)) FAIL_CHECK(json(text));
  }
  CHECK(json("a\xff\"\\\n\x1b\xc2\x9b\u202E") ==
        "\"a\xef\xbf\xbd\\\"\\\\\\n\\u001b\\u009b\\u202e\"");
}

TEST_CASE("text that a spreadsheet would take for a formula is text, and numbers stay numbers") {
  CHECK(csv("=cmd|' /C calc'!A0") == "'=cmd|' /C calc'!A0");
  CHECK(csv("+1") == "'+1");
  CHECK(csv("-1.5") == "'-1.5");
  CHECK(csv("@SUM(A1,A2)") == "\"'@SUM(A1,A2)\"");
  CHECK(csv("\t=1") == "'\t=1");
  CHECK(csv("\r=1") == "'\\r=1");
  CHECK(csv("\n=1") == "\"'\n=1\"");
  CHECK(csv("a=1") == "a=1");
  CHECK(csv("a\x1b") == "a\\x1b");
  std::string numbers;
  append_csv(numbers, -1.5);
  numbers += ',';
  append_csv(numbers, int64_t{-3});
  CHECK(numbers == "-1.5,-3");
  std::string path;
  append_csv(path, std::filesystem::path("=x"));
  CHECK(path == "'=x");
}

TEST_CASE("white space is stripped by whole characters") {
  CHECK(stripped("\u00a0\u3000 \x1c\na\u3000b\u2028\x1f\t") == "a\u3000b");
  CHECK(stripped(" \u0085\u180e \u2003") == "\u180e");
  CHECK(stripped("\xa0 \xe3\x80") == "\xa0 \xe3\x80");  // not UTF-8
  CHECK(stripped(" \n\u3000").empty());
  CHECK(right_stripped(" \x1f ", is_white_space) == " \x1f");
}

}  // namespace
}  // namespace fsdp
