#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <new>

#include "base/text/foreign_json.h"
#include "contract/record/event.h"
#include "formats/data/document.h"
#include "formats/inputs/inputs.h"
#include "formats/weights/safetensors.h"
#include "formats/weights/weights.h"
#include "tests/contract/applied_overrides.h"
#include "tests/contract/input_fixtures.h"

// The size and depth of foreign text are limited before it becomes objects.
namespace fsdp {
namespace {

using Catch::Contains;

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

TEST_CASE("a document nested 100,000 deep is refused, and does not end the process") {
  const TemporaryFolder folder;
  const std::string deep = nested(100'000);
  const auto in_key = [&](const std::string& key) { return "{\"" + key + "\":" + deep + "}"; };
  folder.write("config.json", in_key("architectures"));
  CHECK_THAT(refusal([&] { read_hugging_face_config(folder.path()); }),
             Contains("config.json: is not JSON") && Contains("more than 64 deep"));
  const auto index = folder.write("model.safetensors.index.json", in_key("weight_map"));
  CHECK_THAT(refusal([&] { read_weights(folder.path()); }),
             Contains(index.string()) && Contains("more than 64 deep"));
  const auto tensors =
      folder.write("model.safetensors", safetensors_bytes(in_key("__metadata__"), ""));
  CHECK_THAT(refusal([&] { read_weights(folder.path()); }),
             Contains(tensors.string()) && Contains("more than 64 deep"));
  const auto array = folder.write("a.npy", npy_bytes("{'descr': " + nested(30'000) + "}", ""));
  CHECK_THAT(refusal([&] { open_token_file(array, 1, 10); }), Contains("more than 64 deep"));
  CHECK_THROWS(event_from_json_line(in_key("version")));
}

TEST_CASE("JSON may be 64 deep, and no larger than it can be") {
  CHECK(parse_foreign_json(nested(64)).is_array());
  CHECK_THROWS_WITH(parse_foreign_json(nested(66)), Contains("more than 64 deep"));
  CHECK_THROWS_WITH(parse_foreign_json("[1,2,3]", 6),
                    Contains("holds 7 bytes; allowed: at most 6"));
}

TEST_CASE("JSON of more values than any document has is refused before it becomes objects") {
  const auto list = [](size_t values) { return "[" + std::string(values, ',') + "]"; };
  const size_t most = kMostJsonValues;
  const std::string text = "[\"" + std::string(most - 2, ',') + "\"]";
  CHECK(parse_foreign_json(text).size() == 1);
  CHECK_THROWS_WITH(parse_foreign_json(list(most)), Contains("holds more than 10000000 values"));
}

// Sanitizers need far more address space than the test allows.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

TEST_CASE("JSON for whose objects there is no memory does not end the process") {
  std::string text = "[0";
  for (int i = 0; i < 4'000'000; ++i) text += ",0";
  text += "]";
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    // Enough for the list while it grows. Its destructor needs a second list, which does not fit.
    const rlim_t most = pages * static_cast<rlim_t>(getpagesize()) + (rlim_t{115} << 20);
    const rlimit limit{.rlim_cur = most, .rlim_max = most};
    if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
    try {
      parse_foreign_json(text);
    } catch (const std::bad_alloc&) {
      _exit(0);
    }
    _exit(2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

#endif

TEST_CASE("JSON of a million objects in one list is read in the time of its bytes") {
  std::string text = "[{}";
  for (int i = 1; i < 1'000'000; ++i) text += ",{}";
  CHECK(parse_foreign_json(text + "]").size() == 1'000'000);
}

TEST_CASE("YAML nested without end, and aliases that multiply, are refused at their line") {
  CHECK_THAT(message("model: " + nested(100'000)), Contains("lab.yaml:1:") && Contains("deep"));
  std::string laughs = "k0: &0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  const auto name = [](char sign, int i) { return sign + std::to_string(i); };
  for (int i = 1; i < 12; ++i) {
    std::string aliases;
    for (int k = 0; k < 10; ++k) aliases += name('*', i - 1) + ", ";
    laughs += name('k', i) + ": " + name('&', i) + " [" + aliases + "]\n";
  }
  CHECK_THAT(message(laughs), Contains("lab.yaml:6:") && Contains("more than 1000000 values"));
}

TEST_CASE("an array of no rows, each of more columns than can be counted, is refused") {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "tokens.npy",
      npy_bytes("{'descr': '<i4', 'fortran_order': False, 'shape': (0, 18446744073709551615), }",
                ""));
  CHECK_THAT(refusal([&] { open_token_file(file, 1, 10); }),
             Contains("has shape [0,18446744073709551615], not two dimensions"));
}

TEST_CASE("links in a circle are refused by name, in every place of an input") {
  const TemporaryFolder folder;
  const auto loop = folder.path() / "loop";
  std::filesystem::create_symlink(loop, loop);
  const auto refusal_of = [&](const std::string& keys) {
    return refusal([&] { check_inputs(resolved(applied(keys + "\nbatch.size_per_rank: 1"))); });
  };
  const std::string place = loop.string();
  CHECK_THAT(refusal_of("model.source: " + place),
             Contains("'model.source'") && Contains("symbolic links"));
  CHECK_THAT(refusal([&] { read_weights(loop); }), Contains(place) && Contains("symbolic links"));
  CHECK_THAT(refusal_of("data: {kind: tokens, train: " + place + "}"),
             Contains(place) && Contains("'data.train'") && Contains("symbolic links"));
  CHECK_THAT(refusal_of("resume: " + place), Contains("'resume'") && Contains("symbolic links"));
  CHECK_THAT(refusal([&] { read_text_file(loop); }), Contains(place) && Contains("symbolic links"));
}

TEST_CASE("what a document holds is shown in a message as far as it fits on a screen") {
  const TemporaryFolder folder;
  folder.write("config.json", "{\"architectures\":\"" + std::string(1 << 20, 'x') + "\"}");
  CHECK(refusal([&] { read_hugging_face_config(folder.path()); }).size() < 2000);
}

}  // namespace
}  // namespace fsdp
