#include <array>

#include "formats/data/document_maker.h"
#include "formats/data/records.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;
using Texts = std::vector<std::string>;

// The texts in `column` of all records.
Texts texts_of(const std::filesystem::path& file, const std::string& column) {
  RecordFile records(file);
  Record record(records);
  RawRecord raw;
  Texts texts;
  while (records.next(raw)) {
    record.parse(raw);
    texts.emplace_back(record.text(column));
  }
  CHECK_FALSE(records.next(raw));  // the file stays at its end
  return texts;
}

std::string refused(const std::string& name, const std::string& text) {
  const TemporaryFolder folder;
  return refusal([&] { texts_of(folder.write(name, text), "text"); });
}

TEST_CASE("records are read from CSV, a JSON array, JSON lines and lines of text") {
  const TemporaryFolder folder;
  const Texts expected{"one", "two \"quoted\"\nlines", "é,"};
  CHECK(
      texts_of(folder.write("a.csv",
                            "\xEF\xBB\xBFid,text\r\n1,one\r\n\r\n2,\"two \"\"quoted\"\"\nlines\"\n"
                            "3,\"\xC3\xA9,\""),
               "text") == expected);
  CHECK(texts_of(
            folder.write("a.json",
                         " [ {\"text\": \"one\", \"more\": [{\"]\": \"}\"}]},\n"
                         "{\"text\":\"two \\\"quoted\\\"\\nlines\"} , {\"text\":\"\\u00e9,\"}]\n"),
            "text") == expected);
  CHECK(texts_of(folder.write("a.jsonl",
                              "{\"text\":\"one\"}\n\n{\"text\":\"two \\\"quoted\\\"\\nlines\"}\r\n"
                              "{\"text\":\"\xC3\xA9,\"}"),
                 "text") == expected);
  CHECK(texts_of(folder.write("a.txt", "one\n\n  \ntwo\r\nthree"), "text") ==
        Texts{"one", "two", "three"});
  const auto games =
      folder.write("games.csv", "Site,Moves,Result\r\nRiga,1. e4,1-0\r\n,\"1. d4\",0-1");
  CHECK(texts_of(games, "Moves") == Texts{"1. e4", "1. d4"});
  CHECK(texts_of(games, "Result") == Texts{"1-0", "0-1"});
  CHECK(texts_of(games, "Site") == Texts{"Riga", ""});
  CHECK(texts_of(folder.write("empty.json", "[]"), "text").empty());
  CHECK(texts_of(folder.write("empty.jsonl", ""), "text").empty());
}

TEST_CASE("text that the caller keeps is read like a file") {
  std::string text = "first\n";
  for (int i = 0; i < 20; ++i) text.append(1'000'000, 'e').append("\n");
  const std::string before = text;
  RecordFile records("kept.txt", text);
  RawRecord raw;
  int64_t count = 0;
  while (records.next(raw)) ++count;
  CHECK(count == 21);
  CHECK(records.read_bytes() == std::ssize(text));
  CHECK((text == before));
}

TEST_CASE("a record or a header with a name twice is refused with its line") {
  const TemporaryFolder folder;
  CHECK(texts_of(folder.write("b.csv", "text,,\na,b,c\n"), "text") == Texts{"a"});
  RecordFile records("turns.jsonl",
                     R"({"messages": [{"role": "user", "role": "system", "content": "a"}]})");
  RawRecord raw;
  REQUIRE(records.next(raw));
  Record record(records);
  record.parse(raw);
  RecordCounts counts;
  CHECK_THAT(refusal([&] { record.turns({}, counts); }),
             Contains("turns.jsonl:1: turn 1 has 'role' twice"));
}

TEST_CASE("a file that does not hold records is refused with its line") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string much((16 << 20) + 1, 'e');
  for (const auto& [name, text, words] : std::vector<std::array<std::string, 3>>{
           {"a.csv", "", "a.csv: is empty"},
           {"a.csv", "Text\nx\n", "a.csv:2: has no 'text'"},
           {"a.csv", "text,b\n\"a\nb\",c\nd\n", "a.csv:4: has 1 fields; needed: 2"},
           {"a.csv", "text,b\n\"a,b\n", "a.csv:2: a quoted field without"},
           {"a.csv", "text,b\n\"a\"b,c\n", "text after a closing quote"},
           {"a.csv", "text,b\na\"b\"c,d\n", "a quote inside a field"},
           {"a.csv", "text,b\ra,b\r", "ends in a carriage return alone; `tr '\\r' '\\n' <FILE"},
           {"a.csv", "text\r\"a\"\r", "ends in a carriage return alone"},
           {"a.csv", "text\nfine\n\xFF\xFE\n", "a.csv:3: holds bytes that are not"},
           {"a.txt", "fine\n\xFF\xFE\n", "a.txt:2: holds bytes that are not UTF-8"},
           {"a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\xFF\"}\n",
            "a.jsonl:2: holds bytes that are not UTF-8"},
           {"a.jsonl", "{\"text\":\"a\"}\n{\"text\":\n", "a.jsonl:2: is not JSON"},
           {"a.jsonl", "[1]\n", "a.jsonl:1: is no JSON object"},
           {"a.jsonl", "{\"text\": 5}\n", "something else than text in 'text'"},
           {"a.jsonl", "{\"text\": null}\n",
            "a.jsonl:1: has null as 'text'; leave such records out"},
           {"a.json", "[{\"text\":\"a\"},\n{\"text\":\"b\"",
            "a.json:2: a record that does not end"},
           {"a.json", "[{\"text\":\"a\"},\n", "an element that is no JSON object"},
           {"a.json", "[{\"text\":\"a\"}\n", "the array does not end"},
           {"a.json", "[{\"text\":\"a\"}\n{\"text\":\"b\"}]", "a.json:2: no comma"},
           {"a.json", "[{\"text\":\"a\"}]\nmore", "a.json:2: text after the end"},
           {"a.jsonl", "{\"text\":" + deep + "}", "a.jsonl:1: is not JSON"},
           {"a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"a\", \"te\\u0078t\": \"b\"}",
            "a.jsonl:2: has 'text' twice"},
           {"a.json", "[\n{\"b\": 1, \"text\": \"a\", \"b\": 1}]", "a.json:2: has 'b' twice"},
           {"a.csv", "text,b,text\na,b,c\n", "a.csv:1: has the column 'text' twice"},
           {"a.csv", "text\n\"" + much + "\"\n", "a.csv:2: a record of more than 16777216 bytes"},
           {"a.jsonl", "\n{\"text\":\"" + much + "\"}", "a.jsonl:2: a record of more"},
           {"a.json", "[{\"text\":\"" + much + "\"}]", "a.json:1: a record of more"}}) {
    CHECK_THAT(refused(name, text), Contains(words));
  }
}

TEST_CASE(
    "a file that is something else than records in UTF-8 and plain JSON is named, with a remedy") {
  using namespace std::string_literals;
  for (const auto& [name, text, words] : std::vector<std::array<std::string, 3>>{
           {"a.jsonl.gz", "\x1f\x8b\x08\0\0\0\0\0"s,
            "a.jsonl.gz: is compressed by gzip; `gunzip --keep FILE`"},
           {"a.json", "\x28\xb5\x2f\xfd\0\0\0\0"s,
            "compressed by Zstandard; `zstd --decompress FILE`"},
           {"a.txt", "BZh91AY&SY", "is compressed by bzip2"},
           {"a.csv", "PK\x03\x04\x14\0\0\0"s, "is a zip archive"},
           {"a.csv", "\xff\xfet\0e\0x\0"s,
            "is text in UTF-16; `iconv -f UTF-16 -t UTF-8 FILE > OTHER`"},
           {"a.txt", "t\0e\0x\0t\0"s, "iconv -f UTF-16LE"},
           {"a.jsonl", "\0{\0\"\0t\0e"s, "iconv -f UTF-16BE"},
           {"a.csv", "id|\"text\"\n1|a\n", R"(by '|', not by commas: id, "text";)"},
           {"a.csv", "id;text\n1;\"a\",\"b\"\n",
            "a.csv:1: has its columns separated by ';', not by commas: id, text; "},
           {"a.tsv", "id\ttext\n1\ta\n", "separated by '\\t', not by commas: id, text; `python3"},
           {"a.jsonl", "\n{\n  \"text\": \"a\"\n}\n",
            "`jq -c . FILE > OTHER.jsonl` writes each object on one line"},
           {"a.json", "{\"data\": [{\"text\": \"a\"}]}\n",
            "has no 'text'; it has 'data' (a list); if the records are in this list, "
            "`jq '.\"data\"' FILE"},
           {"a.jsonl", R"({"text": "NaN", "score": NaN})",
            "it holds NaN, which JSON does not know; write null"},
           {"a.jsonl", R"({"text": "a", "score": -Infinity})", "it holds Infinity, which"},
           {"a.jsonl", R"({"text": "a \\ud83d \ud83d"})",
            R"(holds \ud83d, half of a surrogate pair)"},
           {"a.jsonl", R"({"text": "\uDE00"})", R"(holds \uDE00, half of)"},
           {"a.jsonl", R"({"text": "a" "b": 1})", "a bracket, comma, colon or quote"},
           {"a.jsonl", R"({"text": "a)", "does not end"},
           {"a.jsonl", "{\"text\": \"a\tb\"}", "a control character"},
           {"a.jsonl", R"({"text": 01})", "is not JSON: "}}) {
    CHECK_THAT(refused(name, text), Contains(words));
  }
  const TemporaryFolder folder;
  CHECK(texts_of(folder.write("b.txt", "BZhang plays"), "text") == Texts{"BZhang plays"});
  CHECK(texts_of(folder.write("b.jsonl", R"({"text": "\ud83d\ude00 NaN \\ud83d"})"), "text") ==
        Texts{"\xF0\x9F\x98\x80 NaN \\ud83d"});
  CHECK_THAT(refused("a.json", "{\n  \"data\": [\n    {\"text\": \"a\"}\n  ]\n}\n"),
             Contains("a.json:1: an object that does not end in its line") &&
                 Contains("in its list 'data', `jq '.\"data\"' FILE > OTHER.json`"));
}

TEST_CASE("a shard that is missing is not taken for one beside it") {
  const TemporaryFolder folder;
  folder.write("train-00001-of-00002.jsonl", "");
  folder.write("games.csv", "");
  const auto message = [&](const std::string& name) {
    return refusal([&] { RecordFile(folder.path() / name); });
  };
  const std::string of_shard = message("train-00002-of-00002.jsonl");
  CHECK_THAT(of_shard, Contains("train-00002-of-00002.jsonl: cannot be read") &&
                           Contains("such as train-00001-of-00002.jsonl, but this one is missing"));
  CHECK(of_shard.find("did you mean") == std::string::npos);
  CHECK_THAT(message("gmes.csv"), Contains("did you mean"));
}

}  // namespace
}  // namespace fsdp
