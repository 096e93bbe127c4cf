#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <numeric>
#include <random>

#include "base/files/file_digest.h"
#include "formats/data/document.h"
#include "formats/data/document_maker.h"
#include "formats/data/prepare.h"
#include "formats/data/records.h"
#include "formats/inputs/inputs.h"
#include "formats/tokenizers/tokenizer.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;
using Catch::StartsWith;
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
  return prepared_file(source, folder, prepared_name(source, file_digest), {.threads = threads});
}

path made_in(const path& folder, const DataSource& source) {
  return folder / prepared_name(source, file_digest);
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
  CHECK(contents_of(made_in(folder.path() / "one", source)) ==
        contents_of(made_in(folder.path() / "four", source)));
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
    CHECK((entry.path() == made_in(folder.path() / "four", source) ||
           entry.path().filename() == ".lock"));
  }
}

TEST_CASE("turns are counted the same in whatever order, and with however many roles") {
  const auto counts_of = [](const std::vector<int>& numbers) {
    RecordCounts all;
    RecordCounts part;
    for (size_t i = 0; i < numbers.size(); ++i) {
      part.add_turn("role " + std::to_string(100 + numbers[i]));
      part.add_turn(numbers[i] % 2 == 0 ? "GPT" : "assistant");
      part.add_unread_key(std::to_string(100 + numbers[i]));
      if (i % 7 != 0) continue;
      all.add(part);
      part = RecordCounts();
    }
    all.add(part);
    return all.text();
  };
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::string in_order = counts_of(numbers);
  CHECK_THAT(in_order, StartsWith("turns: 50 GPT (trained on), 50 assistant (trained on), 1 role 100") &&
                           Contains(", 1 role 119, 80 of other names; not read: 1 100, "));
  CHECK(in_order.size() < sizeof(PreparedHeader::counts));
  std::mt19937 engine(5);
  for (int i = 0; i < 10; ++i) {
    std::ranges::shuffle(numbers, engine);
    CHECK(counts_of(numbers) == in_order);
  }
}

TEST_CASE("the first wrong record is the error, and nothing is left of the file") {
  const TemporaryFolder folder;
  const std::string good = lines_of_json(9'000);
  const auto file = folder.write("a.jsonl", good + "{\"text\":1}\n" + good + "{\"text\":2}\n");
  const int threads = GENERATE(1, 3);
  CHECK_THAT(refusal([&] { prepare(text_source(file), folder.path() / "out", threads); }),
             Contains("a.jsonl:9001: has something else than text"));
  CHECK(names_in(folder / "out") == std::vector<std::string>{".lock"});
}

TEST_CASE("a prepared file that is damaged or cut short is noticed, and made again") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.txt", "1. e4 e5\n2. Nf3\n"));
  prepare(source, folder.path());
  const path file = made_in(folder.path(), source);
  const std::string name = file.filename();
  const std::string whole = contents_of(file);
  REQUIRE(whole.size() > sizeof(PreparedHeader));
  for (size_t i = 0; i < whole.size(); ++i) {
    folder.write(name, whole.substr(0, i));
    CHECK_THROWS_AS(PreparedFile(file), ConfigError);
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    folder.write(name, damaged);
    CHECK_THROWS_AS(PreparedFile(file), ConfigError);
  }
  std::string zeroed = whole;
  std::fill(zeroed.begin() + sizeof(PreparedHeader), zeroed.end(), '\0');
  folder.write(name, zeroed);
  CHECK_THAT(refusal([&] { PreparedFile{file}; }),
             Contains("its contents changed after it was written"));
  folder.write("0123456789abcdef.tokens", whole);
  CHECK_THAT(refusal([&] { PreparedFile(folder.path() / "0123456789abcdef.tokens"); }),
             Contains("was made as " + name));
  prepare(source, folder.path());
  CHECK(contents_of(file) == whole);
}

TEST_CASE("tokens of inputs that were overwritten do not get the name of what they were") {
  const TemporaryFolder folder;
  DataSource source = text_source(folder.write("a.txt", "1. e4 e5\n"));
  const std::string pieces = contents_of(source.tokenizer);
  source.tokenizer = folder.write("tokenizer.model", pieces);
  const std::string name = prepared_name(source, file_digest);
  SECTION("the data") { folder.write("a.txt", "1. d4 d5\n"); }
  SECTION("the tokenizer") {
    folder.write("tokenizer.model", pieces + std::string("\x32\0", 2));  // one more field, empty
  }
  CHECK_THAT(refusal([&] { prepared_file(source, folder.path() / "out", name); }),
             Contains("changed during this call") && Contains("or its tokenizer"));
  CHECK_FALSE(std::filesystem::exists(folder.path() / "out" / name));
}

TEST_CASE("progress is told while documents are made") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.jsonl", lines_of_json(100'000)));
  const auto size = static_cast<int64_t>(std::filesystem::file_size(source.file));
  int64_t last_bytes = -1;
  PrepareOptions options{.threads = 1};
  options.on_progress = [&](int64_t read_bytes, int64_t all_bytes) {
    CHECK(read_bytes >= last_bytes);
    CHECK(read_bytes <= all_bytes);
    CHECK(all_bytes == size);
    last_bytes = read_bytes;
  };
  prepared_file(source, folder.path(), prepared_name(source, file_digest), options);
  CHECK(last_bytes > 0);
}

TEST_CASE("data cut short while it is tokenized is an error that names it, not SIGBUS") {
  const TemporaryFolder folder;
  const auto file = folder.write("a.jsonl", lines_of_json(100'000));
  RecordFile records(file);
  RawRecord raw;
  REQUIRE(records.next(raw));
  std::filesystem::resize_file(file, 100);
  CHECK_THAT(refusal([&] {
               while (records.next(raw)) {
               }
             }),
             Contains("a.jsonl: was cut short while it was read"));
}

TEST_CASE("files of tokens cut short while they are read are errors, not SIGBUS") {
  const TemporaryFolder folder;
  const auto array = folder.write("a.npy", npy_of(4096, 2, std::vector<int32_t>(8192, 1)));
  const auto flat = folder.write("b.bin", bytes_of(std::vector<uint16_t>(8192, 1)));
  for (const auto& [file, length] : {std::pair(array, 1), std::pair(flat, 1)}) {
    const auto documents = open_token_file(file, length, 10);
    std::filesystem::resize_file(file, 64);
    Document document;
    CHECK_THAT(refusal([&] { documents->read(documents->count() - 1, document); }),
               Contains("was cut short while it was read"));
  }
}

// Overwrites the bytes of a file from `offset` on.
void overwrite(const path& file, uint64_t offset, const std::string& bytes) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream << bytes;
  REQUIRE(stream.flush());
}

TEST_CASE("a token beyond the vocabulary that comes into an open file is refused with its row") {
  const TemporaryFolder folder;
  const auto header = [](const std::string& descr) {
    return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (4, 2), }\n";
  };
  folder.write("a.npy", npy_of(4, 2, std::vector<int32_t>(8, 1)));
  folder.write("b.npy", npy_bytes(header("<i8"), bytes_of(std::vector<int64_t>(8, 1))));
  folder.write("c.bin", bytes_of(std::vector<uint16_t>(5, 1)));
  folder.write("d.bin", bytes_of(std::vector<uint32_t>(5, 1)));
  struct Change {
    const char* name;
    int64_t vocab_size;
    std::string bytes;  // the first token of row 2
    std::string named;
  };
  // The lowest 31 bits of the tokens for b.npy and d.bin would be in the vocabulary.
  const Change change = GENERATE(
      Change{"a.npy", 10, bytes_of<int32_t>({10}), "10"},
      Change{"a.npy", 10, bytes_of<int32_t>({-5}), "-5"},
      Change{"b.npy", 10, bytes_of<int64_t>({(int64_t{1} << 32) + 3}), "4294967299"},
      Change{"b.npy", 10, bytes_of<int64_t>({int64_t{1} << 31}), "2147483648"},
      Change{"c.bin", 10, bytes_of<uint16_t>({11}), "11"},
      Change{"d.bin", 70'000, bytes_of<uint32_t>({(uint32_t{1} << 31) + 3}), "2147483651"});
  CAPTURE(change.name, change.named);
  const path file = folder.path() / change.name;
  const bool is_array = file.extension() == ".npy";
  const auto documents = open_token_file(file, 1, change.vocab_size);
  REQUIRE(documents->count() == 4);
  const uint64_t row_bytes = change.bytes.size() * (is_array ? 2 : 1);
  const uint64_t end_of_rows = std::filesystem::file_size(file);
  overwrite(file, is_array ? end_of_rows - 2 * row_bytes : 2 * row_bytes, change.bytes);
  Document document;
  documents->read(0, document);
  CHECK(document == Document{1 | kTrainedOn, 1 | kTrainedOn});
  CHECK_THAT(
      refusal([&] { documents->read(2, document); }),
      Contains(file.string()) && Contains("row 2 holds the token " + change.named + ", but"));
}

TEST_CASE("a prepared file that changes while it is read is refused with the document") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.txt", "1. e4 e5\n2. Nf3\n"));
  const PreparedFile prepared = prepare(source, folder.path());
  const auto first = static_cast<uint64_t>(prepared.length(0));
  overwrite(made_in(folder.path(), source), sizeof(PreparedHeader) + first * sizeof(uint32_t),
            bytes_of<uint32_t>({1023}));
  REQUIRE(prepared.header().largest_token < 1023);
  Document document;
  prepared.read(0, document);
  CHECK_THAT(refusal([&] { prepared.read(1, document); }),
             Contains("document 1 holds the token 1023, above the file's largest"));
}

TEST_CASE("what a killed process left of another prepared file is removed") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.txt", "1. e4 e5\n"));
  const path out = folder.path() / "out";
  std::filesystem::create_directories(out);
  for (const char* const name :
       {"0123456789abcdef.tokens.partial", "0123456789abcdef.tokens", "notes.txt"}) {
    std::ofstream(out / name) << "left";
  }
  prepare(source, out);
  std::vector<std::string> expected{".lock", "0123456789abcdef.tokens", "notes.txt",
                                    prepared_name(source, file_digest)};
  CHECK_THAT(names_in(out), Catch::UnorderedEquals(expected));
}

TEST_CASE("planted links where a prepared file is written lead to nothing that is written to") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.txt", "1. e4 e5\n"));
  const path precious = folder.write("precious", "not yours");
  const path out = folder.path() / "out";
  std::filesystem::create_directories(out);
  const path file = made_in(out, source);
  for (const char* const ending : {"", ".partial"}) {
    std::filesystem::create_symlink(precious, file.string() + ending);
  }
  std::filesystem::create_symlink(precious, out / ".lock");
  CHECK_THROWS(prepare(source, out));
  std::filesystem::remove(out / ".lock");
  CHECK(prepare(source, out).count() == 1);
  CHECK(contents_of(precious) == "not yours");
  CHECK_FALSE(std::filesystem::is_symlink(file));
}

TEST_CASE("of processes that ask at once, one makes the file and the others take it") {
  const TemporaryFolder folder;
  const DataSource source = text_source(folder.write("a.jsonl", lines_of_json(5'000)));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    bool was_made = false;
    prepared_file(source, folder.path() / "out", prepared_name(source, file_digest), {.threads = 1},
                  &was_made);
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
  other.file = folder.write("moved.txt", "{}");  // the extension decides how it is read
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
             Contains("not a whole number of tokens of 2 bytes"));
  CHECK(open_token_file(folder.write("d.bin", ""), 2, 10)->count() == 0);
}

template <typename Item>
std::string tokens_up_to(int64_t count, Item most) {
  std::vector<Item> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<Item>(1 + i * 7919 % most));
  return bytes_of(tokens);
}

TEST_CASE("tokens of another width than they are read with are refused by what was seen") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, const std::string& bytes, int64_t vocab_size,
                           std::optional<TokenDtype> dtype = {}) {
    const path file = folder.write(name, bytes);
    return refusal([&] { open_token_file(file, 4, vocab_size, dtype); });
  };
  const std::string narrow = tokens_up_to<uint16_t>(1000, 32'000);
  const std::string wide = tokens_up_to<uint32_t>(1000, 32'000);
  const std::string wider = tokens_up_to<uint32_t>(1000, 128'000);
  const std::string widest = tokens_up_to<int64_t>(1000, 32'000);
  CHECK_THAT(
      message("a.bin", wide, 32'001),
      Contains("every second token is 0, as in a file of uint32; if it is one, set "
               "data.token_dtype: uint32. If its tokens are uint16, set data.token_dtype: uint16"));
  CHECK_THAT(message("a.bin", wider, 65'536), Contains("every second token is at most 1, as in"));
  CHECK_THAT(message("a.bin", widest, 32'001),
             Contains("every second token is 0, as in a file of int64"));
  CHECK_THAT(message("a.bin", widest, 128'256), Contains("as in a file of int64"));
  CHECK_THAT(message("a.bin", narrow, 128'256),
             Contains("of 500 tokens beyond the model's vocabulary of 128256") &&
                 Contains("set data.token_dtype: uint16"));
  const auto opens = [&](const std::string& bytes, int64_t vocab_size,
                         std::optional<TokenDtype> dtype) {
    return open_token_file(folder.write("a.bin", bytes), 4, vocab_size, dtype)->count();
  };
  CHECK(opens(narrow, 32'001, {}) == 249);
  CHECK(opens(narrow, 128'256, TokenDtype::kUint16) == 249);
  CHECK(opens(wide, 32'001, TokenDtype::kUint32) == 249);
  CHECK(opens(wide, 32'001, TokenDtype::kUint16) == 499);
  CHECK(opens(wider, 128'001, {}) == 249);
  CHECK(opens(bytes_of<uint16_t>({5, 0, 20, 0}), 32, {}) == 0);
  CHECK(opens(bytes_of(std::vector<uint16_t>(1000, 0)), 32, {}) == 249);
}

TEST_CASE("files of tokens with a header or an index of others are named as what they are") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& bytes, std::optional<TokenDtype> dtype = {}) {
    const path file = folder.write("a.bin", bytes);
    return refusal([&] { open_token_file(file, 4, 50'257, dtype); });
  };
  std::vector<uint32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = GENERATE(1, 7);
  const std::string dtype = header[1] == 7 ? "uint32" : "uint16";
  CHECK_THAT(
      message(bytes_of(header) + tokens_up_to<uint16_t>(100, 50'000), TokenDtype::kUint16),
      Contains("begins with the header of llm.c; `tail -c +1025 FILE > OTHER.bin` leaves its "
               "tokens, with data.token_dtype: " +
               dtype));
  CHECK_THAT(message(npy_of(1, 5, {1, 2, 3, 4, 5})), Contains("is a .npy array"));
  CHECK_THAT(message("PK\3\4" + std::string(100, 'x')), Contains("is a zip archive"));

  const std::string narrow = tokens_up_to<uint16_t>(1000, 32'000);
  const auto write_index = [&](char code) {
    folder.write("a.idx", std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17) + code);
  };
  write_index(4);
  CHECK_THAT(message(narrow), Contains("is of Megatron-LM, with tokens of int32 (a.idx), but would "
                                       "be read as uint16; set data.token_dtype: uint32"));
  write_index(5);
  CHECK_THAT(message(narrow),
             Contains("tokens of int64") && Contains("write its tokens as uint16"));
  write_index(8);
  CHECK(open_token_file(folder.write("a.bin", narrow), 4, 50'257)->count() == 249);
}

}  // namespace
}  // namespace fsdp
