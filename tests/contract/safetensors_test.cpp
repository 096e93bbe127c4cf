#include "formats/weights/safetensors.h"

#include <sys/stat.h>

#include "formats/weights/weights.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;

const std::string kTwoTensors = R"({"__metadata__":{"format":"pt"},)"
                                R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                R"("b":{"dtype":"BF16","shape":[1,3],"data_offsets":[8,14]}})";

std::string refusal_of(const std::string& file_bytes) {
  const TemporaryFolder folder;
  folder.write("model.safetensors", file_bytes);
  const std::string message = refusal([&] { read_weights(folder.path()); });
  CHECK_THAT(message, Contains((folder.path() / "model.safetensors").string()));
  return message;
}

// A header with the one tensor `a`, described by `fields`.
std::string with_tensor(const std::string& fields, size_t data_bytes) {
  return safetensors_bytes(R"({"a":{)" + fields + "}}", std::string(data_bytes, 'x'));
}

TEST_CASE("tensors of a safetensors file are found") {
  const TemporaryFolder folder;
  folder.write("model.safetensors", safetensors_bytes(kTwoTensors, "ABCDEFGHijklmn"));
  const auto entries = read_weights(folder.path());
  REQUIRE(entries.size() == 2);
  const StoredTensor& b = entries.at("b");
  CHECK(b.dtype == "BF16");
  CHECK(b.shape == std::vector<int64_t>{1, 3});
  std::string bytes(b.size_bytes, '\0');
  b.read(0, std::as_writable_bytes(std::span(bytes)));
  CHECK(bytes == "ijklmn");
  CHECK(b.offset + b.size_bytes == b.file->size_bytes());
}

TEST_CASE("a safetensors file with a wrong header length, or cut short anywhere, is refused") {
  CHECK_THAT(refusal_of(""), Contains("holds 0 bytes"));
  CHECK_THAT(refusal_of("1234567"), Contains("holds 7 bytes"));
  CHECK_THAT(refusal_of(bytes_of<uint64_t>({3}) + "{}"), Contains("announces a header of 3 bytes"));
  CHECK_THAT(refusal_of(bytes_of<uint64_t>({~0ull}) + "{}"), Contains("cut short"));
  const std::string whole = safetensors_bytes(kTwoTensors, "ABCDEFGHijklmn");
  for (size_t size = 0; size < whole.size(); ++size) refusal_of(whole.substr(0, size));
}

TEST_CASE("a safetensors header that is not JSON as the format has it is refused") {
  CHECK_THAT(refusal_of(safetensors_bytes("{\"a\":", "")), Contains("is not JSON"));
  CHECK_THAT(refusal_of(safetensors_bytes("[]", "")), Contains("is not a JSON object"));
  CHECK_THAT(refusal_of(safetensors_bytes(R"({"a":1})", "")), Contains("is not described by"));
  CHECK_THAT(refusal_of(with_tensor(R"("shape":[1],"data_offsets":[0,4])", 4)),
             Contains("is not described by"));
  CHECK_THAT(refusal_of(with_tensor(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])", 4)),
             Contains("unknown dtype 'F33'"));
  CHECK_THAT(refusal_of(with_tensor(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])", 4)),
             Contains("not a list of sizes: [-1]"));
  for (const std::string offsets : {"[4,0]", "[4]"}) {
    CHECK_THAT(refusal_of(with_tensor(R"("dtype":"F32","shape":[1],"data_offsets":)" + offsets, 4)),
               Contains("not a begin and an end: " + offsets));
  }
}

TEST_CASE("a safetensors header with a name twice is refused") {
  const std::string tensor = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  CHECK_THAT(
      refusal_of(with_tensor(R"("dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4])", 4)),
      Contains("has 'dtype' twice in one object of its header"));
  CHECK_THAT(
      refusal_of(safetensors_bytes(R"({"a":)" + tensor + R"(,"\u0061":)" + tensor + "}", "abcd")),
      Contains("has 'a' twice"));
  CHECK_THAT(refusal_of(safetensors_bytes(R"({"__metadata__":{"x":"1","x":"2"}})", "")),
             Contains("has 'x' twice"));
}

TEST_CASE("a safetensors tensor whose bytes are not its shape's is refused") {
  CHECK_THAT(refusal_of(with_tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])", 4)),
             Contains("shape [2] does not fill its 4 bytes"));
  CHECK_THAT(refusal_of(with_tensor(R"("dtype":"BF16","shape":[1],"data_offsets":[0,4])", 4)),
             Contains("dtype BF16"));
  // The product of the sizes overflows to 0.
  CHECK_THAT(refusal_of(with_tensor(
                 R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0)),
             Contains("does not fill its 0 bytes"));
}

TEST_CASE("safetensors tensors that overlap or leave bytes over are refused") {
  const auto layout = [](const std::string& a, const std::string& b) {
    return safetensors_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                                 R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                             std::string(10, 'x'));
  };
  CHECK_THAT(refusal_of(layout("[0,4]", "[3,7]")), Contains("'b' overlaps"));
  CHECK_THAT(refusal_of(layout("[0,4]", "[0,4]")), Contains("overlaps"));
  CHECK_THAT(refusal_of(layout("[6,10]", "[0,4]")), Contains("'a' leaves a hole"));
  CHECK_THAT(refusal_of(layout("[0,4]", "[4,8]")), Contains("2 bytes that belong to no tensor"));
  CHECK_THAT(refusal_of(layout("[0,4]", "[8,12]")), Contains("holds only 10"));
}

TEST_CASE("shards are read through their index") {
  const TemporaryFolder folder;
  folder.write("one.safetensors", counting_safetensors({{"a", {2}}, {"unlisted", {1}}}));
  folder.write("two.safetensors", counting_safetensors({{"b", {3}}}));
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto entries = read_weights(folder.path());
  REQUIRE(entries.size() == 2);
  CHECK(entries.at("b").shape == std::vector<int64_t>{3});
  const auto files = weight_files(folder.path());
  REQUIRE(files.size() == 3);
  CHECK(files[0] == folder.path() / "model.safetensors.index.json");
  CHECK(files[2] == folder.path() / "two.safetensors");
}

TEST_CASE("an index that does not fit its shards is refused") {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& index) {
    folder.write("model.safetensors.index.json", index);
    return refusal([&] { read_weights(folder.path()); });
  };
  folder.write("one.safetensors", counting_safetensors({{"a", {2}}}));
  CHECK_THAT(message(R"({"weight_map":{"b":"one.safetensors"}})"),
             Contains("names tensor 'b' in one.safetensors, which does not hold it"));
  CHECK_THAT(message(R"({"weight_map":{"a":"gone.safetensors"}})"),
             Contains("gone.safetensors: cannot be read: No such file"));
  CHECK_THAT(message(R"({"weight_map":{"a":"../one.safetensors"}})"),
             Contains("in the same folder"));
  CHECK_THAT(message(R"({"weight_map":{"a":7}})"), Contains("has the shard 7"));
  CHECK_THAT(message(R"({})"), Contains("no 'weight_map'"));
  CHECK_THAT(message("{"), Contains("is not JSON"));
}

TEST_CASE("a folder without safetensors, a folder and a pipe in place of a file are refused") {
  const TemporaryFolder folder;
  CHECK_THAT(refusal([&] { read_weights(folder.path()); }), Contains("holds neither"));
  const auto file = folder.path() / "model.safetensors";
  std::filesystem::create_directory(file);
  CHECK_THAT(refusal([&] { read_weights(folder.path()); }), Contains("Is a directory"));
  std::filesystem::remove(file);
  REQUIRE(mkfifo(file.c_str(), 0600) == 0);
  CHECK_THAT(refusal([&] { read_weights(folder.path()); }), Contains("cannot be read"));
}

}  // namespace
}  // namespace fsdp
