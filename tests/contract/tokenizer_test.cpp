#include "formats/tokenizers/tokenizer.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "formats/inputs/inputs.h"
#include "formats/tokenizers/split_pattern.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Matchers::Contains;
using Ids = std::vector<int32_t>;

// A byte-level BPE: GPT-2's letters for printable ASCII, space and line feed, and some merges.
nlohmann::json byte_level_json() {
  nlohmann::json vocabulary;
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = vocabulary.size();
  vocabulary["Ġ"] = vocabulary.size();
  vocabulary["Ċ"] = vocabulary.size();
  for (const char* const piece : {"ab", "abab", "Ġa", "bc"}) vocabulary[piece] = vocabulary.size();
  const auto end_of_text = static_cast<int64_t>(vocabulary.size());
  return {
      {"added_tokens", {{{"id", end_of_text}, {"content", "<|end|>"}, {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", nullptr},
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"a b", "ab ab", "b c", {"Ġ", "a"}}}}}};
}

struct TokenizerFile {
  TemporaryFolder folder;
  nlohmann::json json = byte_level_json();

  std::filesystem::path write() const { return folder.write("tokenizer.json", json.dump()); }
  std::unique_ptr<Tokenizer> open() const { return open_tokenizer(write()); }
  // Splits text by the pattern before it is encoded.
  void split_by(const char* pattern) {
    json["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  }
  std::string refused() const {
    return refusal([&] { open(); });
  }
};

Ids encoded(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

Ids encoded_with_special(const Tokenizer& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.encode_with_special(text, ids);
  return ids;
}

std::string base64(const std::string& bytes) {
  static constexpr char kLetters[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += i + j > bytes.size() ? '=' : kLetters[bits >> (18 - 6 * j) & 63];
    }
  }
  return text;
}

// All bytes, then all pairs of bytes, then triples: as many pieces as Llama 3 has.
std::string tiktoken_text(int64_t pieces = 128'000) {
  std::string text;
  for (int64_t rank = 0; rank < pieces; ++rank) {
    std::string piece;
    const int64_t value = rank < 256 ? rank : rank < 65'792 ? rank - 256 : rank - 65'792;
    if (rank >= 65'792) piece += static_cast<char>(value >> 16);
    if (rank >= 256) piece += static_cast<char>(value >> 8);
    piece += static_cast<char>(value);
    text += base64(piece) + ' ' + std::to_string(rank) + '\n';
  }
  return text;
}

}  // namespace

TEST_CASE("merges go by their rank, and of one rank from the left") {
  const auto tokenizer = TokenizerFile().open();
  const auto id = [&](const char* piece) { return *tokenizer->id_of(piece); };
  CHECK(encoded(*tokenizer, "abababc") == Ids{id("abab"), id("ab"), id("c")});
  CHECK(encoded(*tokenizer, "bc a") == Ids{id("bc"), id("Ġa")});
  CHECK(encoded(*tokenizer, "") == Ids{});
  CHECK(tokenizer->vocab_size() == 101);
  CHECK_FALSE(tokenizer->id_of("abc"));
}

TEST_CASE("a pair that changed before its turn waits for its new rank") {
  TokenizerFile file;
  file.json["model"]["vocab"]["xa"] = 201;
  file.json["model"]["vocab"]["abc"] = 202;
  file.json["model"]["merges"] = {"b c", "a b", "x a", "a bc"};
  const auto tokenizer = file.open();
  CHECK(encoded(*tokenizer, "xabc") == Ids{201, *tokenizer->id_of("bc")});
  CHECK(encoded(*tokenizer, "abc") == Ids{202});
}

TEST_CASE("a special token is found only where it is asked for") {
  const auto tokenizer = TokenizerFile().open();
  const int32_t end = *tokenizer->id_of("<|end|>");
  const int32_t a = *tokenizer->id_of("a");
  CHECK(encoded_with_special(*tokenizer, "a<|end|>a") == Ids{a, end, a});
  CHECK(encoded(*tokenizer, "a<|end|>a").size() == 9);
}

TEST_CASE("added tokens take spaces, or stand apart, or are found after normalization") {
  TokenizerFile file;
  file.json["normalizer"] = {{"type", "NFC"}};
  file.json["added_tokens"] = {
      {{"id", 100}, {"content", "<l>"}, {"lstrip", true}, {"special", true}},
      {{"id", 101}, {"content", "<r>"}, {"rstrip", true}, {"special", true}},
      {{"id", 102}, {"content", "word"}, {"single_word", true}, {"normalized", false}},
      {{"id", 103}, {"content", "<l><r>"}, {"special", true}},
      {{"id", 104}, {"content", "é"}, {"normalized", true}}};
  const auto tokenizer = file.open();
  const int32_t a = *tokenizer->id_of("a");
  CHECK(encoded_with_special(*tokenizer, "a \n<l>a") == Ids{a, 100, a});
  CHECK(encoded_with_special(*tokenizer, "a<r> \u3000a") == Ids{a, 101, a});
  CHECK(encoded_with_special(*tokenizer, "a<l><r>a") == Ids{a, 103, a});
  CHECK(encoded(*tokenizer, "word") == Ids{102});
  CHECK(encoded(*tokenizer, "words").size() == 5);
  CHECK(encoded(*tokenizer, "e\u0301") == Ids{104});
}

TEST_CASE("text that is not UTF-8 is read with U+FFFD in the place of its bytes") {
  const auto tokenizer = TokenizerFile().open();
  CHECK(encoded(*tokenizer, "a\xFF\xC3") == encoded(*tokenizer, "a\uFFFD\uFFFD"));
}

TEST_CASE("a megabyte without a space is encoded") {
  const auto tokenizer = TokenizerFile().open();
  std::string text(1 << 20, 'b');
  text.push_back('c');
  const Ids ids = encoded(*tokenizer, text);
  CHECK(ids.size() == 1 << 20);
  CHECK(ids.back() == *tokenizer->id_of("bc"));
}

TEST_CASE("threads encode with one tokenizer") {
  const auto tokenizer = TokenizerFile().open();
  const std::string text = "ab abc bcab aab<|end|> ab";
  const Ids expected = encoded_with_special(*tokenizer, text);
  std::atomic<int> same = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 200; ++j) same += encoded_with_special(*tokenizer, text) == expected;
    });
  }
  threads.clear();
  CHECK(same == 800);
}

TEST_CASE("a tokenizer.json of another kind, or a damaged one, is refused with its key") {
  using Change = std::tuple<const char*, nlohmann::json, const char*>;
  const nlohmann::json two = {{{"type", "ByteLevel"}}, {{"type", "Digits"}}};
  for (const auto& [pointer, value, words] : std::vector<Change>{
           {"/model/type", "WordPiece",
            "tokenizer.json: 'model.type': is \"WordPiece\"; allowed: BPE"},
           {"/model/byte_fallback", true, "'model.byte_fallback': is true"},
           {"/model/dropout", 0.1, "'model.dropout': is 0.1; allowed: null"},
           {"/model/continuing_subword_prefix", "##", "\"##\"; allowed: null"},
           {"/normalizer",
            {{"type", "Lowercase"}},
            "'normalizer.type': is \"Lowercase\"; allowed: Sequence, NFC"},
           {"/pre_tokenizer", {{"type", "Whitespace"}}, "'model.byte_fallback'"},
           {"/pre_tokenizer",
            {{"type", "Sequence"}, {"pretokenizers", two}},
            "'pre_tokenizer.pretokenizers[0]': is followed by another"},
           {"/post_processor", {{"type", "BertProcessing"}}, "'post_processor.type'"},
           {"/model", nullptr, "has no model"},
           {"/model/vocab", 3, "'model.vocab': is 3; allowed: an object"},
           {"/model/vocab/a", 1, "'model.vocab."},
           {"/model/vocab/a", 1, "has the id 1"},
           {"/model/vocab/a", -1, "'model.vocab.a': is -1; allowed: 0 to 16777215"},
           {"/model/vocab/a", int64_t{1} << 31, "'model.vocab.a': is 2147483648; allowed: 0 to "},
           {"/model/vocab/a", 1.5, "'model.vocab.a': is 1.5; allowed: 0 to 16777215"},
           {"/model/vocab/a", "1", "'model.vocab.a': is \"1\"; allowed: 0 to 16777215"},
           {"/model/merges/0", "a zz", "'model.merges[0]': names 'zz'"},
           {"/model/merges/0", "a c", "names 'ac', which is not in model.vocab"},
           {"/model/merges/0", "a", "allowed: two pieces"},
           {"/added_tokens/0/id", 3, "'added_tokens[0].id'"},
           {"/added_tokens/0/content", "", "is an empty text"}}) {
    TokenizerFile file;
    file.json[nlohmann::json::json_pointer(pointer)] = value;
    CHECK_THAT(file.refused(), Contains(words));
  }
  const TemporaryFolder folder;
  const auto text_refused = [&](const std::string& text) {
    return refusal([&] { open_tokenizer(folder.write("tokenizer.json", text)); });
  };
  const std::string whole = byte_level_json().dump();
  CHECK_THAT(text_refused(whole.substr(0, whole.size() / 2)), Contains("is not JSON"));
  CHECK_THAT(text_refused(""), Contains("is not JSON"));
  CHECK_THAT(text_refused("[1]"), Contains("is not a JSON object"));
}

TEST_CASE("a normalizer that makes a text ever longer is refused") {
  TokenizerFile file;
  const nlohmann::json grow{
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(10, 'a')}};
  file.json["normalizer"] = {{"type", "Sequence"}, {"normalizers", {grow}}};
  CHECK(encoded(*file.open(), std::string(1000, 'a')).size() == 10'000);
  for (int i = 0; i < 10; ++i) file.json["normalizer"]["normalizers"].push_back(grow);
  const auto refused = [&] { return refusal([&] { encoded(*file.open(), "a long a"); }); };
  CHECK_THAT(refused(),
             Contains("tokenizer.json: its normalizer or Metaspace makes a text more than"));
  file.json["added_tokens"][0]["normalized"] = true;
  file.json["added_tokens"][0]["content"] = "aa";
  CHECK_THAT(file.refused(), Contains("tokenizer.json: its normalizer"));
  file.json["added_tokens"] = nullptr;
  file.json["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(10'000, 'a')}};
  CHECK_THAT(refused(), Contains("makes a text more than"));
  file.json["normalizer"] = nullptr;
  file.json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", std::string(10'000, 'a')}, {"split", false}};
  file.json["model"]["byte_fallback"] = true;
  file.json["model"]["vocab"] = {{"a", 0}};
  file.json["model"]["merges"] = nlohmann::json::array();
  CHECK_THAT(refused(), Contains("makes a text more than"));
  CHECK_THAT(refusal([&] { encoded(*file.open(), "b"); }), Contains("makes a text more than"));
}

TEST_CASE("an added token of which normalization leaves nothing is found nowhere") {
  TokenizerFile file;
  file.json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "xx"}}}, {"content", ""}};
  file.json["added_tokens"] = {{{"id", 100}, {"content", "xx"}, {"normalized", true}}};
  const auto tokenizer = file.open();
  CHECK(encoded(*tokenizer, "axxb") == encoded(*tokenizer, "ab"));
}

TEST_CASE("a token that begins or ends a sequence is below vocab_size") {
  TokenizerFile file;
  const auto set_id = [&](int64_t id) {
    file.json["post_processor"] = {{"type", "TemplateProcessing"},
                                   {"single", {{{"SpecialToken", {{"id", "s"}}}}}},
                                   {"special_tokens", {{"s", {{"ids", {id}}}}}}};
  };
  set_id(5'000'000);
  CHECK_THAT(file.refused(), Contains("'post_processor.special_tokens.s.ids[0]': is 5000000; "
                                      "allowed: 0 to 100"));
  set_id(file.json["added_tokens"][0]["id"]);
  CHECK(file.open()->ends().begin == file.open()->id_of("<|end|>"));
}

TEST_CASE("a class of a pattern may begin with its closing bracket") {
  TokenizerFile file;
  for (const auto& [pattern, count] :
       {std::pair("[]\\s]", 2U), std::pair("[^]\\s]", 2U), std::pair("[]c]", 1U)}) {
    file.split_by(pattern);
    CHECK(encoded(*file.open(), " a").size() == count);
  }
}

TEST_CASE("a pattern that does not compile or tries for ever is refused") {
  TokenizerFile file;
  const auto refused = [&](const char* pattern) {
    file.split_by(pattern);
    return file.refused();
  };
  const std::string key = "'pre_tokenizer.pretokenizers[0].pattern.Regex': ";
  CHECK_THAT(refused("(a"), Contains(key + "it is no regular expression"));
  CHECK_THAT(refused("[a[bc]]"), Contains(key + "it has a class within a class"));
  CHECK_THAT(refused("\\h"), Contains(key + "it holds \\h"));
  CHECK_THAT(refused("\\C"), Contains("\\C is disabled"));  // matches a part of a character
  file.split_by("(a+)+$");
  const auto tokenizer = file.open();
  std::string text(4000, 'a');
  text.push_back('b');
  CHECK_THAT(refusal([&] { encoded(*tokenizer, text); }),
             Contains("tokenizer.json: its regular expression cannot be matched with the text"));
}

TEST_CASE("a tiktoken file has Llama 3's special tokens behind its pieces") {
  const TemporaryFolder folder;
  const auto tokenizer = open_tokenizer(folder.write("tokenizer.model", tiktoken_text()));
  CHECK(tokenizer->vocab_size() == 128'256);
  CHECK(tokenizer->ends().begin == 128'000);
  CHECK(tokenizer->ends().adds_begin);
  CHECK(tokenizer->id_of("<|eot_id|>") == 128'009);
  CHECK(tokenizer->id_of("<|reserved_special_token_245|>") == 128'255);
  CHECK(encoded(*tokenizer, "ab") == Ids{256 + 'a' * 256 + 'b'});
  CHECK(encoded_with_special(*tokenizer, "<|eot_id|>") == Ids{128'009});
}

TEST_CASE("a damaged tiktoken file is refused with its line") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    return refusal([&] { open_tokenizer(folder.write("tokenizer.model", text)); });
  };
  CHECK_THAT(refused(tiktoken_text(1000)), Contains("has 1000 pieces; needed: 128000"));
  CHECK_THAT(refused("YQ== 0\nYQ== 1\n"), Contains("tokenizer.model:2") && Contains("the piece"));
  CHECK_THAT(refused("YQ== 0\nYg== 0\n"), Contains(":2") && Contains("the rank"));
  CHECK_THAT(refused("YQ== 0\nYg== 2147483647\n"), Contains("rank 2147483647; allowed: 0 to"));
  CHECK_THAT(refused(base64(std::string(1'000'000, 'a')) + " 0\n"),
             Contains(":1: has a piece of 1000000 bytes; allowed: at most 1024"));
  CHECK_THAT(refused("YQ== 0\nY! 1\n"), Contains(":2: is no line of a tiktoken file"));
}

TEST_CASE("a folder's settings say what a sequence begins and ends with") {
  const TokenizerFile file;
  file.write();
  file.folder.write("tokenizer_config.json",
                    R"({"bos_token": "<|end|>", "eos_token": {"content": "<|end|>"},
                        "pad_token": "[PAD]", "add_eos_token": true})");
  const auto tokenizer = open_tokenizer(file.folder.path());
  CHECK(tokenizer->ends().begin == 100);
  CHECK(tokenizer->ends().end == 100);
  CHECK(tokenizer->ends().padding == 101);  // a new token, after all others
  CHECK(tokenizer->vocab_size() == 102);
  CHECK_FALSE(tokenizer->ends().adds_begin);
  CHECK_FALSE(tokenizer->ends().adds_end);  // the post_processor decides
  CHECK(tokenizer_files(file.folder.path()).size() == 2);

  file.folder.write("tokenizer_config.json", R"({"bos_token": 3})");
  CHECK_THAT(refusal([&] { open_tokenizer(file.folder.path()); }),
             Contains("tokenizer_config.json: 'bos_token': is 3; allowed: a text"));
  CHECK_THAT(refusal([&] { open_tokenizer(TemporaryFolder().path()); }),
             Contains("has no tokenizer; needed: tokenizer.json"));
}

TEST_CASE("a split pattern has a limit for a text, not for each match") {
  TokenizerFile file;
  const std::string word(400'000, 'a');
  for (const char* const pattern : {"(?:[a-z][a-z])*!|[a-z]", "[a-z]*!|[a-z]", "[a-z]+!"}) {
    CAPTURE(pattern);
    file.split_by(pattern);
    const auto tokenizer = file.open();
    CHECK_THAT(
        refusal([&] { encoded(*tokenizer, word); }),
        Contains(
            "tokenizer.json: its regular expression cannot be matched with the text: it tries"));
    CHECK(encoded(*tokenizer, "abab!").size() > 0);
  }
}

TEST_CASE("published split patterns read texts of many megabytes") {
  constexpr const char* kGpt2 =
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
  constexpr const char* kLlama3 =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  constexpr const char* kQwen2 =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
      "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  constexpr size_t kBytes = 4'000'000;
  std::string runs;  // of 1 to 20,000 equal characters
  for (size_t i = 0; runs.size() < kBytes; ++i) {
    runs += std::string(1 + i * 997 % 20'000, " a!\n7A"[i % 6]);
  }
  for (const char* const regex : {kGpt2, kLlama3, kQwen2}) {
    const SplitPattern pattern(regex);
    for (const std::string& text : {std::string(kBytes, ' ') + 'x', std::string(kBytes, 'A'),
                                    std::string(kBytes, '!'), runs}) {
      SplitPattern::TimeLimit limit(text.size());
      size_t done = 0;
      while (const auto match = pattern.find(text, done, limit)) {
        REQUIRE(match->begin == done);
        done = match->end;
      }
      CHECK(done == text.size());
    }
  }
}

TEST_CASE("a match is the same however far the pattern looks") {
  const SplitPattern pattern("\\s+(?!\\S)|\\s+|(?<=x)\\S+|x|y+$");
  const std::string text = std::string(1000, ' ') + 'x' + std::string(3001, 'z') + ' ' +
                           std::string(300, 'y') + ' ' + std::string(2000, 'y');
  SplitPattern::TimeLimit limit(text.size());
  std::vector<std::pair<size_t, size_t>> found;
  size_t done = 0;
  while (const auto match = pattern.find(text, done, limit)) {
    found.emplace_back(match->begin, match->end);
    done = match->end;
  }
  CHECK(found == std::vector<std::pair<size_t, size_t>>{{0, 999},
                                                        {999, 1000},
                                                        {1000, 1001},
                                                        {1001, 4002},
                                                        {4002, 4003},
                                                        {4303, 4304},
                                                        {4304, 6304}});
}

TEST_CASE("a hundred thousand added tokens are read, those of one text once") {
  const TokenizerFile file;
  file.write();
  nlohmann::json decoder;
  nlohmann::json added;
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = "<" + std::to_string(i) + ">";
    decoder[std::to_string(101 + i)] = {{"content", text}, {"special", true}};
    added[text] = 101 + i;
  }
  file.folder.write("tokenizer_config.json",
                    nlohmann::json{{"added_tokens_decoder", decoder}}.dump());
  file.folder.write("added_tokens.json", added.dump());
  const auto tokenizer = open_tokenizer(file.folder.path());
  CHECK(tokenizer->vocab_size() == 100'101);
  CHECK(encoded_with_special(*tokenizer, "<99999>").size() == 1);
  CHECK(encoded(*tokenizer, "<99999>").size() == 7);
}

TEST_CASE("a folder of T5 has sentinels behind the pieces of its model, and adds the end") {
  const TemporaryFolder folder;
  std::filesystem::copy(tokenizer_of(RunSpec{}), folder.path() / "spiece.model");
  const auto tokenizer = open_tokenizer(folder.path());
  CHECK(tokenizer->vocab_size() == 1124);
  CHECK(tokenizer->id_of("<extra_id_0>") == 1123);
  CHECK(tokenizer->ends().adds_end);
  CHECK_FALSE(tokenizer->ends().adds_begin);
  CHECK(encoded_with_special(*tokenizer, "<extra_id_1>") == Ids{1122});
  folder.write("tokenizer_config.json", R"({"extra_ids": 16000000})");
  CHECK_THAT(refusal([&] { open_tokenizer(folder.path()); }),
             Contains("tokenizer_config.json: 'extra_ids': is 16000000; allowed: 0 to 10000"));
}

}  // namespace fsdp
