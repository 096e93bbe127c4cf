#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "contract/data/prepare.h"
#include "contract/data/token_files.h"
#include "contract/files/file_digest.h"
#include "contract/inputs/inputs.h"
#include "contract/tokenizers/tokenizer.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;
using std::filesystem::path;

std::string lines_of_json(int64_t count) {
  std::string lines;
  for (int64_t i = 0; i < count; ++i) {
    lines += "{\"text\":\"1. e4 e5 " + std::string(static_cast<size_t>(i % 7 * 20), 'a') +
             std::to_string(i) + "\"}\n";
  }
  return lines;
}

DataSource text_source(const path& file) {
  DataSpec data;
  data.kind = DataKind::kText;
  return {.file = file, .tokenizer = tokenizer_of(RunSpec()), .data = data};
}

PreparedFile prepare(const DataSource& source, const path& folder, int threads = 2) {
  return prepared_file(source, folder, "x.tokens", {.threads = threads});
}

std::string contents_of(const path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_CASE("a prepared file is the same whatever the number of threads, and holds every document") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.jsonl", lines_of_json(20'000)));
  const PreparedFile one = prepare(source, folder.path() / "one", 1);
  const PreparedFile four = prepare(source, folder.path() / "four", 4);
  CHECK(contents_of(folder.path() / "one/x.tokens") ==
        contents_of(folder.path() / "four/x.tokens"));
  REQUIRE(one.count() == 20'000);
  CHECK(count_documents(source) == 20'000);
  const auto tokenizer = open_tokenizer(source.tokenizer);
  for (const int64_t i : {0, 12'345, 19'999}) {
    std::vector<int32_t> expected{*tokenizer->ends().begin};
    const std::string line = lines_of_json(i + 1);
    const size_t begin = line.rfind("1. e4");
    tokenizer->encode(line.substr(begin, line.size() - 3 - begin), expected);
    expected.push_back(*tokenizer->ends().end);
    Document document;
    four.read(i, document);
    CHECK(four.length(i) == std::ssize(document));
    std::vector<int32_t> ids;
    for (const uint32_t token : document) {
      CHECK((token & kTrainedOn) != 0);
      ids.push_back(static_cast<int32_t>(token_id(token)));
    }
    CHECK(ids == expected);
  }
  CHECK(four.header().tokens == four.header().trained_tokens);
  CHECK(four.longer_than(static_cast<int64_t>(four.header().longest_tokens) - 1) > 0);
  CHECK(four.longer_than(static_cast<int64_t>(four.header().longest_tokens)) == 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "four")) {
    CHECK((entry.path().filename() == "x.tokens" || entry.path().filename() == ".lock"));
  }
}

TEST_CASE("the first wrong record is the error, and nothing is left of the file") {
  const TemporaryFolder folder;
  const std::string good = lines_of_json(9'000);
  const auto file = folder.write("a.jsonl", good + "{\"text\":1}\n" + good + "{\"text\":2}\n");
  const int threads = GENERATE(1, 3);
  CHECK_THAT(refusal([&] { prepare(text_source(file), folder.path() / "out", threads); }),
             Contains("a.jsonl:9001: has something else than text"));
  CHECK(std::filesystem::is_empty(folder.path() / "out") == false);  // the lock stays
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out/x.tokens"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out/x.tokens.partial"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out/x.tokens.offsets"));
}

TEST_CASE("a prepared file that is damaged or cut short is noticed, and made again") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.txt", "1. e4 e5\n2. Nf3\n"));
  prepare(source, folder.path());
  const path file = folder.path() / "x.tokens";
  const std::string whole = contents_of(file);
  REQUIRE(whole.size() > 96);
  for (size_t size = 0; size < whole.size(); ++size) {
    folder.write("cut.tokens", whole.substr(0, size));
    CHECK_THROWS_AS(PreparedFile(folder.path() / "cut.tokens"), ConfigError);
  }
  for (size_t i = 0; i < 96; ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    folder.write("damaged.tokens", damaged);
    CHECK_THROWS_AS(PreparedFile(folder.path() / "damaged.tokens"), ConfigError);
  }
  std::string offsets = whole;
  offsets[whole.size() - 16] = 127;
  folder.write("damaged.tokens", offsets);
  CHECK_THAT(refusal([&] { PreparedFile(folder.path() / "damaged.tokens"); }),
             Contains("do not follow each other"));
  std::string token = whole;
  token[98] = 127;
  folder.write("damaged.tokens", token);
  Document document;
  CHECK_THAT(refusal([&] { PreparedFile(folder.path() / "damaged.tokens").read(0, document); }),
             Contains("above its largest"));
  folder.write("x.tokens", whole.substr(0, 100));
  prepare(source, folder.path());
  CHECK(contents_of(file) == whole);
}

TEST_CASE("of processes that ask at once, one makes the file and the others take it") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.jsonl", lines_of_json(5'000)));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    bool was_made = false;
    prepared_file(source, folder.path() / "out", "x.tokens", {.threads = 1}, &was_made);
    _exit(was_made ? 1 : 0);
  }
  int made = 0;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) <= 1);
    made += WEXITSTATUS(status);
  }
  CHECK(made == 1);
}

TEST_CASE("a prepared file's name follows from contents and from what decides the tokens") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.jsonl", "{}"));
  const auto name_of_source = [](const DataSource& of) { return prepared_name(of, file_digest); };
  const std::string name = name_of_source(source);
  CHECK(name.size() == std::string("0123456789abcdef.tokens").size());
  DataSource other = source;
  other.data.sequence_length = 7;
  other.data.shuffle = false;
  other.data.rows = RowFill::kPack;
  other.data.train = "/elsewhere";
  CHECK(name_of_source(other) == name);
  other.data.prompt.with_input = "x";
  CHECK(name_of_source(other) != name);
  other = source;
  other.file = folder.write("moved.jsonl", "{}");
  CHECK(name_of_source(other) == name);
  other.file = folder.write("moved.txt", "{}");  // is read in another way
  CHECK(name_of_source(other) != name);
  folder.write("moved.jsonl", "{ }");
  other.file = folder.path() / "moved.jsonl";
  CHECK(name_of_source(other) != name);
}

TEST_CASE("flat tokens are windows that share one token, of two bytes or four") {
  const TemporaryFolder folder;
  const auto small = folder.write("a.bin", bytes_of<uint16_t>({1, 2, 3, 4, 5, 6, 7, 65'535}));
  const auto read = [](const DocumentFile& file, int64_t number) {
    Document document;
    file.read(number, document);
    std::vector<int64_t> ids;
    for (const uint32_t token : document) ids.push_back(token_id(token));
    return ids;
  };
  const auto flat = open_token_file(small, 3, 65'536);
  REQUIRE(flat->count() == 2);
  CHECK(read(*flat, 0) == std::vector<int64_t>{1, 2, 3, 4});
  CHECK(read(*flat, 1) == std::vector<int64_t>{4, 5, 6, 7});
  CHECK_THAT(refusal([&] { open_token_file(small, 3, 65'535); }),
             Contains("holds the token 65535"));
  const auto large = folder.write("b.bin", bytes_of<uint32_t>({70'000, 70'001, 70'002}));
  CHECK(read(*open_token_file(large, 2, 128'256), 0) ==
        std::vector<int64_t>{70'000, 70'001, 70'002});
  CHECK_THAT(refusal([&] { open_token_file(folder.write("c.bin", "abc"), 2, 10); }),
             Contains("no whole tokens of 2 bytes"));
  CHECK(open_token_file(folder.write("d.bin", ""), 2, 10)->count() == 0);
}

}  // namespace
}  // namespace fsdp
