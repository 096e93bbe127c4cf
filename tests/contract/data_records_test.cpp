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

TEST_CASE("games are read from any CSV with their columns") {
  const TemporaryFolder folder;
  const auto file = folder.write("games.csv",
                                 "\xEF\xBB\xBFResult,Site,Moves,Termination\r\n"
                                 "1-0,\"Riga, \"\"old\"\"\ntown\",1. e4 e5,CHECKMATE\r\n"
                                 "\r\n"
                                 "0-1,,\"1. d4\",RESIGNED");
  CHECK(texts_of(file, "Moves") == Texts{"1. e4 e5", "1. d4"});
  CHECK(texts_of(file, "Termination") == Texts{"CHECKMATE", "RESIGNED"});
  CHECK(texts_of(file, "Site") == Texts{"Riga, \"old\"\ntown", ""});
}

TEST_CASE("a record or a header with a name twice is refused with its line") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, const std::string& text) {
    return refusal([&] { texts_of(folder.write(name, text), "text"); });
  };
  CHECK_THAT(message("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"a\", \"te\\u0078t\": \"b\"}"),
             Contains("a.jsonl:2: has 'text' twice"));
  CHECK_THAT(message("a.json", "[\n{\"b\": 1, \"text\": \"a\", \"b\": 1}]"),
             Contains("a.json:2: has 'b' twice"));
  CHECK_THAT(message("a.csv", "text,b,text\na,b,c\n"),
             Contains("a.csv:1: has the column 'text' twice"));
  CHECK(texts_of(folder.write("b.csv", "text,,\na,b,c\n"), "text") == Texts{"a"});
  RecordFile records("turns.jsonl",
                     R"({"messages": [{"role": "user", "role": "system", "content": "a"}]})");
  RawRecord raw;
  REQUIRE(records.next(raw));
  Record record(records);
  record.parse(raw);
  TurnCounts counts;
  CHECK_THAT(refusal([&] { record.turns({}, counts); }),
             Contains("turns.jsonl:1: turn 1 has 'role' twice"));
}

TEST_CASE("a file that does not hold records is refused with its line") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, const std::string& text) {
    return refusal([&] { texts_of(folder.write(name, text), "text"); });
  };
  CHECK_THAT(message("a.csv", ""), Contains("a.csv: is empty"));
  CHECK_THAT(message("a.csv", "Text\nx\n"), Contains("a.csv:2: has no 'text'"));
  CHECK_THAT(message("a.csv", "text,b\n\"a\nb\",c\nd\n"),
             Contains("a.csv:4: has 1 fields; needed: 2"));
  CHECK_THAT(message("a.csv", "text,b\n\"a,b\n"), Contains("a.csv:2: a quoted field without"));
  CHECK_THAT(message("a.csv", "text,b\n\"a\"b,c\n"), Contains("text after a closing quote"));
  CHECK_THAT(message("a.csv", "text,b\na\"b\"c,d\n"), Contains("a quote inside a field"));
  CHECK_THAT(message("a.csv", "text\nfine\n\xFF\xFE\n"),
             Contains("a.csv:3: holds bytes that are not"));
  CHECK_THAT(message("a.txt", "fine\n\xFF\xFE\n"),
             Contains("a.txt:2: holds bytes that are not UTF-8"));
  CHECK_THAT(message("a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\xFF\"}\n"),
             Contains("a.jsonl:2: holds bytes that are not UTF-8"));
  CHECK_THAT(message("a.jsonl", "{\"text\":\"a\"}\n{\"text\":\n"),
             Contains("a.jsonl:2: is not JSON"));
  CHECK_THAT(message("a.jsonl", "[1]\n"), Contains("a.jsonl:1: is no JSON object"));
  CHECK_THAT(message("a.jsonl", "{\"text\": 5}\n"), Contains("something else than text in 'text'"));
  CHECK_THAT(message("a.jsonl", "{\"text\": null}\n"), Contains("a.jsonl:1: has no 'text'"));
  CHECK_THAT(message("a.json", "[{\"text\":\"a\"},\n{\"text\":\"b\""),
             Contains("a.json:2: a record that does not end"));
  CHECK_THAT(message("a.json", "[{\"text\":\"a\"},\n"),
             Contains("an element that is no JSON object"));
  CHECK_THAT(message("a.json", "[{\"text\":\"a\"}\n"), Contains("the array does not end"));
  CHECK_THAT(message("a.json", "[{\"text\":\"a\"}\n{\"text\":\"b\"}]"),
             Contains("a.json:2: no comma"));
  CHECK_THAT(message("a.json", "[{\"text\":\"a\"}]\nmore"),
             Contains("a.json:2: text after the end"));
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK_THAT(message("a.jsonl", "{\"text\":" + deep + "}"), Contains("a.jsonl:1: is not JSON"));
}

TEST_CASE("a file that is something else than records in UTF-8 is named, with a remedy") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, const std::string& text) {
    return refusal([&] { texts_of(folder.write(name, text), "text"); });
  };
  using namespace std::string_literals;
  CHECK_THAT(message("a.jsonl.gz", "\x1f\x8b\x08\0\0\0\0\0"s),
             Contains("a.jsonl.gz: is compressed by gzip; `gunzip --keep FILE`"));
  CHECK_THAT(message("a.json", "\x28\xb5\x2f\xfd\0\0\0\0"s),
             Contains("compressed by Zstandard; `zstd --decompress FILE`"));
  CHECK_THAT(message("a.txt", "BZh91AY&SY"), Contains("is compressed by bzip2"));
  CHECK(texts_of(folder.write("b.txt", "BZhang plays"), "text") == Texts{"BZhang plays"});
  CHECK_THAT(message("a.csv", "PK\x03\x04\x14\0\0\0"s), Contains("is a zip archive"));
  CHECK_THAT(message("a.csv", "\xff\xfet\0e\0x\0"s),
             Contains("is text in UTF-16; `iconv -f UTF-16 -t UTF-8 FILE > OTHER`"));
  CHECK_THAT(message("a.txt", "t\0e\0x\0t\0"s), Contains("iconv -f UTF-16LE"));
  CHECK_THAT(message("a.jsonl", "\0{\0\"\0t\0e"s), Contains("iconv -f UTF-16BE"));
  CHECK_THAT(message("a.csv", "id|\"text\"\n1|a\n"),
             Contains(R"(by '|', not by commas: id, "text";)"));
  CHECK_THAT(message("a.csv", "id;text\n1;\"a\",\"b\"\n"),
             Contains("a.csv:1: has its columns separated by ';', not by commas: id, text; "));
  CHECK_THAT(message("a.tsv", "id\ttext\n1\ta\n"),
             Contains("separated by '\\t', not by commas: id, text; `python3"));
  CHECK_THAT(message("a.json", "{\n  \"data\": [\n    {\"text\": \"a\"}\n  ]\n}\n"),
             Contains("a.json:1: an object that does not end in its line") &&
                 Contains("in its list 'data', `jq '.\"data\"' FILE > OTHER.json`"));
  CHECK_THAT(message("a.jsonl", "\n{\n  \"text\": \"a\"\n}\n"),
             Contains("`jq -c . FILE > OTHER.jsonl` writes each object on one line"));
  CHECK_THAT(message("a.json", "{\"data\": [{\"text\": \"a\"}]}\n"),
             Contains("has no 'text'; it has 'data' (a list); if the records are in this list, "
                      "`jq '.\"data\"' FILE"));
}

TEST_CASE("JSON that Python writes and others do not read is refused by what it holds") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& line) {
    return refusal([&] { texts_of(folder.write("a.jsonl", line + "\n"), "text"); });
  };
  CHECK_THAT(message(R"({"text": "NaN", "score": NaN})"),
             Contains("it holds NaN, which JSON does not know; write null"));
  CHECK_THAT(message(R"({"text": "a", "score": -Infinity})"), Contains("it holds Infinity, which"));
  CHECK_THAT(message(R"({"text": "a \\ud83d \ud83d"})"),
             Contains(R"(holds \ud83d, half of a surrogate pair)"));
  CHECK_THAT(message(R"({"text": "\uDE00"})"), Contains(R"(holds \uDE00, half of)"));
  CHECK_THAT(message(R"({"text": "a" "b": 1})"), Contains("a bracket, comma, colon or quote"));
  CHECK_THAT(message(R"({"text": "a)"), Contains("does not end"));
  CHECK_THAT(message("{\"text\": \"a\tb\"}"), Contains("a control character"));
  CHECK_THAT(message(R"({"text": 01})"), Contains("is not JSON: "));
  CHECK(texts_of(folder.write("b.jsonl", R"({"text": "\ud83d\ude00 NaN \\ud83d"})"), "text") ==
        Texts{"\xF0\x9F\x98\x80 NaN \\ud83d"});
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

TEST_CASE("a record that goes on without end is refused with its line") {
  const TemporaryFolder folder;
  const std::string much((16 << 20) + 1, 'e');
  const auto message = [&](const std::string& name, const std::string& text) {
    return refusal([&] { texts_of(folder.write(name, text), "text"); });
  };
  CHECK_THAT(message("games.csv", "text\n\"" + much + "\"\n"),
             Contains("games.csv:2: a record of more than 16777216 bytes"));
  CHECK_THAT(message("a.jsonl", "\n{\"text\":\"" + much + "\"}"),
             Contains("a.jsonl:2: a record of more"));
  CHECK_THAT(message("a.json", "[{\"text\":\"" + much + "\"}]"),
             Contains("a.json:1: a record of more"));
}

}  // namespace
}  // namespace fsdp
