#include "formats/weights/torch_file.h"

#include "formats/weights/weights.h"
#include "tests/contract/torch_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;

const std::string kTwoFloats = bytes_of<float>({1.5f, -2.25f});

std::span<const std::byte> as_bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::shared_ptr<const InputFile> file_of(const std::string& text) {
  return std::make_shared<const InputFile>("x.bin", as_bytes_of(text));
}

StoredTensors read(const std::string& file) { return read_torch(file_of(file)); }

std::string refusal_of_file(const std::string& file) {
  const std::string message = refusal([&] { read(file); });
  CHECK_THAT(message, Contains("x.bin"));
  return message;
}

std::string refusal_of_pickle(const std::string& pickle) {
  return refusal_of_file(torch_bytes(pickle, {{"0", kTwoFloats}}));
}

std::string refusal_of_tensor(const TensorPickle& tensor) {
  return refusal_of_pickle(pickle_of(pickled_tensor(tensor)));
}

template <typename T>
std::vector<T> values(const StoredTensor& tensor) {
  std::vector<T> items(tensor.size_bytes / sizeof(T));
  tensor.read(0, std::as_writable_bytes(std::span(items)));
  return items;
}

TEST_CASE("tensors of a file of torch.save are found") {
  const TemporaryFolder folder;
  const auto file =
      folder.write("pytorch_model.bin",
                   torch_bytes(pickle_of(pickled_tensor({.shape = {1, 2}, .strides = {7, 1}})),
                               {{"0", kTwoFloats}}));
  const StoredTensors tensors = read_torch(std::make_shared<const InputFile>(file));
  REQUIRE(tensors.size() == 1);
  const StoredTensor& a = tensors.at("a");
  CHECK(a.dtype == "F32");
  CHECK(a.shape == std::vector<int64_t>{1, 2});
  CHECK(values<float>(a) == std::vector<float>{1.5f, -2.25f});
  CHECK(a.file->path() == file);
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST_CASE("a pickle of many values in few bytes is refused before it takes much memory") {
  const std::string begin = "\x80\x02";
  for (const char opcode : {'}', '(', 'N', ')'}) {  // an empty dictionary, a mark, None, a tuple
    CAPTURE(opcode);
    CHECK_THAT(refusal_of_pickle(begin + std::string(1'000'000, opcode) + "."),
               Contains("damaged at byte"));
  }
}

TEST_CASE("a pickle whose values would take far more memory than it has bytes is refused") {
  constexpr size_t kMany = 1'000'000;
  const std::string begin = "\x80\x02";
  const std::string list = "]";
  const std::string tensor = pickled_tensor(
      {.shape = std::vector<int32_t>(64, 0), .strides = std::vector<int32_t>(64, 0)});
  std::string names = "}" + pickled_text("") + tensor + "q\x02s";
  std::string memo = "N";
  for (uint32_t i = 0; i < kMany; ++i) {
    names += "X" + bytes_of<uint32_t>({4}) + bytes_of<uint32_t>({i}) + "h\x02s";
    if (i % 8 == 0) memo += "r" + bytes_of<uint32_t>({i * 8});
  }
  const auto [what, values] =
      GENERATE_REF(std::pair("tuples", list + repeated("N\x85\x85\x85\x85\x85\x85\x85"
                                                       "a",
                                                       kMany)),
                   std::pair("pairs", "}" + repeated("(" + std::string(1000, 'N') + "u", 2000)),
                   std::pair("dictionaries", list + repeated("}a", kMany)),
                   std::pair("names", names), std::pair("memo", memo));
  CAPTURE(what);
  CHECK_THAT(refusal_of_pickle(begin + values + "."), Contains("with far more values"));
}

// Tensors of one number each, in one storage, as torch.save writes them. Each value that may be
// needed again gets a place in the memo.
std::string pickle_of_scalars(uint32_t count) {
  uint32_t places = 0;
  std::string pickle = "\x80\x02}";
  const auto put = [&] { pickle += "r" + bytes_of<uint32_t>({places++}); };
  // Writes the value only once; later it is read from its place.
  const auto add_once = [&](const std::string& value, char place) {
    if (places > static_cast<uint32_t>(place)) {
      pickle += {'h', place};
    } else {
      pickle += value;
      put();
    }
  };
  put();
  for (uint32_t i = 0; i < count; ++i) {
    pickle += pickled_text(std::to_string(i));
    put();
    add_once(pickled_global("torch._utils", "_rebuild_tensor_v2"), 2);
    pickle += "((";
    add_once(pickled_text("storage"), 3);
    add_once(pickled_global("torch", "FloatStorage"), 4);
    add_once(pickled_text("0"), 5);
    add_once(pickled_text("cpu"), 6);
    pickle += std::string("K\2t", 3);
    put();
    pickle += std::string("QK\0))\x89", 6);
    add_once(pickled_global("collections", "OrderedDict"), 8);
    pickle += ")R";
    put();
    pickle += "t";
    put();
    pickle += "R";
    put();
    pickle += "s";
  }
  return pickle + ".";
}

TEST_CASE("a pickle of very many small tensors is read") {
  CHECK(read_pickled_tensors("x", pickle_of_scalars(80'000)).size() == 80'000);
}

TEST_CASE("tensors of torch.save share a storage, or are a part of one") {
  const std::string pickle =
      "\x80\x02" + pickled_global("collections", "OrderedDict") + ")Rq\x01(" +
      pickled_text("tied") +
      pickled_tensor({.shape = {2}, .type = "HalfStorage", .storage_items = 3}) + "q\x02" +
      pickled_text("head") + "h\x02" + pickled_text("end") +
      pickled_global("torch._utils", "_rebuild_parameter") + "(" +
      pickled_tensor({.shape = {1}, .type = "HalfStorage", .storage_items = 3, .first_item = 2}) +
      "\x88" + pickled_global("collections", "OrderedDict") + ")RtRu}" + pickled_text("_metadata") +
      pickled_global("collections", "OrderedDict") + ")Rsb.";
  const std::string file = torch_bytes(pickle, {{"0", bytes_of<uint16_t>({1, 2, 3})}});
  const StoredTensors tensors = read(file);
  REQUIRE(tensors.size() == 3);
  CHECK(tensors.at("tied").dtype == "F16");
  CHECK(tensors.at("tied").offset == tensors.at("head").offset);
  CHECK(values<uint16_t>(tensors.at("end")) == std::vector<uint16_t>{3});
}

TEST_CASE("every kind of storage has its dtype") {
  using Kinds = std::vector<std::tuple<std::string, std::string, size_t>>;
  for (const auto& [type, dtype, bytes] : Kinds{{"Float", "F32", 4},
                                                {"BFloat16", "BF16", 2},
                                                {"Half", "F16", 2},
                                                {"Double", "F64", 8},
                                                {"Long", "I64", 8},
                                                {"Int", "I32", 4},
                                                {"Short", "I16", 2},
                                                {"Char", "I8", 1},
                                                {"Byte", "U8", 1},
                                                {"Bool", "BOOL", 1}}) {
    const std::string file = torch_bytes(pickle_of(pickled_tensor({.type = type + "Storage"})),
                                         {{"0", std::string(2 * bytes, 'x')}});
    CHECK(read(file).at("a").dtype == dtype);
  }
}

TEST_CASE("a pickle that asks for anything but tensors is refused by its name") {
  const std::string call = pickled_global("os", "system") + pickled_text("touch pwned") + "\x85R";
  CHECK_THAT(refusal_of_pickle(pickle_of(call)),
             Contains("asks for 'os.system'") && Contains("safetensors"));
  CHECK_THAT(refusal_of_pickle("\x80\x02" + call + "0" + "}."), Contains("'os.system'"));
  CHECK_THAT(refusal_of_pickle(pickle_of(pickled_global("torch", "FloatTensor"))),
             Contains("'torch.FloatTensor'"));
  // Known globals accept no other arguments.
  for (const std::string& known :
       {pickled_global("torch", "FloatStorage"), pickled_global("collections", "OrderedDict")}) {
    CHECK_THAT(refusal_of_pickle(pickle_of(known + pickled_int(1) + "\x85R")),
               Contains("is damaged at byte"));
  }
}

TEST_CASE("a pickle of something else than tensors by name is refused") {
  CHECK_THAT(refusal_of_pickle("\x80\x02N."), Contains("no dictionary of tensors"));
  CHECK_THAT(refusal_of_pickle(pickle_of(pickled_int(3))), Contains("'a', which is no tensor"));
  CHECK_THAT(refusal_of_pickle(pickle_of("}")),
             Contains("'a', which is a dictionary: it is a training checkpoint"));
  CHECK_THAT(refusal_of_pickle("\x80\x02}" + pickled_int(3) + "Ns."), Contains("is not text"));
  CHECK_THAT(refusal_of_pickle("\x80\x04}."), Contains("protocol 4; allowed: 2"));
}

TEST_CASE("a tensor of torch.save that is not where it says is refused") {
  CHECK_THAT(refusal_of_tensor({.shape = {3}}),
             Contains("reaches beyond the 2 elements of its storage '0'"));
  CHECK_THAT(refusal_of_tensor({.first_item = 1}), Contains("reaches beyond"));
  CHECK_THAT(refusal_of_tensor({.first_item = -1}), Contains("reaches beyond"));
  CHECK_THAT(refusal_of_tensor({.shape = {1 << 30, 1 << 30, 1 << 30}, .strides = {1, 1, 1}}),
             Contains("reaches beyond"));
  CHECK_THAT(refusal_of_tensor({.shape = {-2}}), Contains("is damaged"));
  CHECK_THAT(refusal_of_tensor({.shape = {2}, .strides = {2, 1}}), Contains("is damaged"));
  CHECK_THAT(refusal_of_tensor({.storage_items = -1}), Contains("is damaged"));
  CHECK_THAT(refusal_of_tensor({.storage_items = 3}),
             Contains("needs 3 elements of 4 bytes in 'archive/data/0', which has 8 bytes"));
  CHECK_THAT(refusal_of_tensor({.type = "HalfStorage"}), Contains("which has 8 bytes"));
  CHECK_THAT(refusal_of_tensor({.storage = "7"}), Contains("'archive/data/7', which is missing"));
  CHECK_THAT(refusal_of_tensor({.shape = {2, 1}, .strides = {0, 1}}),
             Contains("tensor 'a' has elements that do not follow each other") &&
                 Contains("contiguous()"));
}

TEST_CASE("a transposed tensor of torch.save is refused, an empty one is not") {
  const ZipFiles four{{"0", std::string(16, 'x')}};
  const auto file = [&](const std::vector<int32_t>& shape, const std::vector<int32_t>& strides) {
    return torch_bytes(
        pickle_of(pickled_tensor({.shape = shape, .strides = strides, .storage_items = 4})), four);
  };
  CHECK_THAT(refusal_of_file(file({2, 2}, {1, 2})), Contains("do not follow each other"));
  CHECK(read(file({2, 2}, {2, 1})).at("a").size_bytes == 16);
  CHECK(read(file({0, 2}, {1, 0})).at("a").size_bytes == 0);
  CHECK(read(file({}, {})).at("a").size_bytes == 4);
}

TEST_CASE("an empty tensor of torch.save is empty, however large its other sizes are") {
  const std::string size = "\x8a\x08" + bytes_of<int64_t>({int64_t{1} << 62});
  std::string tensor = pickled_tensor({.shape = {0, 77}, .strides = {1, 1}});
  const std::string small = pickled_int(77);
  tensor.replace(tensor.find(small), small.size(), size);
  const std::string file = torch_bytes(pickle_of(tensor), {{"0", kTwoFloats}});
  CHECK(read(file).at("a").size_bytes == 0);
  CHECK(read(file).at("a").shape == std::vector<int64_t>{0, int64_t{1} << 62});
}

TEST_CASE("a file of torch.save cut short anywhere, or with a changed byte, is refused or whole") {
  const std::string whole = torch_bytes(pickle_of(pickled_tensor({})), {{"0", kTwoFloats}});
  for (size_t i = 0; i < whole.size(); ++i) {
    CHECK_THROWS_AS(read(whole.substr(0, i)), ConfigError);
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0x41);
    StoredTensors tensors;
    try {
      tensors = read(changed);
    } catch (const ConfigError&) {
      continue;
    }
    CHECK(tensors.at("a").size_bytes == 8);
  }
  const std::string pickle = pickle_of(pickled_tensor({}));
  for (size_t size = 0; size < pickle.size(); ++size) {
    CHECK_THROWS_AS(read_pickled_tensors("x", pickle.substr(0, size)), ConfigError);
  }
}

TEST_CASE("a pickle that takes from an empty stack, or holds itself, is harmless") {
  for (const std::string program : {"0.", "R.", "b.", "Q.", "s.", "u.", "t.", "a.", "e.", "q\x01.",
                                    "h\x01.", "(R.", "}(R.", "}(b.", "\x85.",
                                    "\x8a\x09"
                                    "123456789.",
                                    "N(ue.", "X\xff\xff\xff\xff."}) {
    CHECK_THROWS_AS(read_pickled_tensors("x", "\x80\x02" + program), ConfigError);
  }
  CHECK_THAT(
      refusal([] { read_pickled_tensors("x", "\x80\x02}q\x01" + pickled_text("me") + "h\x01s."); }),
      Contains("'me', which is a dictionary"));
}

TEST_CASE("numbers of any width are read") {
  const std::string begin = "\x80\x02}" + pickled_text("a") +
                            pickled_global("torch._utils", "_rebuild_tensor_v2") + "((" +
                            pickled_text("storage") + pickled_global("torch", "ByteStorage") +
                            pickled_text("0") + pickled_text("cpu");
  const auto storage_items = [&](const std::string& number) {
    const std::string rest = std::string("tQK\x01") + "))\x89NtRs.";
    return read_pickled_tensors("x", begin + number + rest).at("a").storage_items;
  };
  CHECK(storage_items("K\xff") == 255);
  CHECK(storage_items("M\xff\xff") == 65535);
  CHECK(storage_items("\x8a\x05\x01\x01\x01\x01\x01") == 0x0101010101);
  CHECK_THROWS_AS(storage_items("\x8a\x01\xff"), ConfigError);
}

TEST_CASE("a file before PyTorch 1.6, or an archive that torch.save did not write, is refused") {
  CHECK_THAT(refusal_of_file("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19."),
             Contains("before PyTorch 1.6"));
  CHECK_THAT(refusal_of_file("not a zip"), Contains("is no zip archive"));
  CHECK_THAT(refusal_of_file(zip_bytes({{"readme.txt", "hello"}})), Contains("without data.pkl"));
  CHECK_THAT(refusal_of_file(torch_bytes(pickle_of("}"), {}, "big")), Contains("byte order"));
  const ZipFiles one{{"archive/data.pkl", "\x80\x02}."}};
  CHECK(read(zip_bytes(one)).empty());
  CHECK_THAT(refusal_of_file(zip_bytes(one, {.flags = 1})), Contains("is encrypted"));
  CHECK_THAT(refusal_of_file(zip_bytes(one, {.method = 8})), Contains("is compressed"));
  CHECK_THAT(refusal_of_file(zip_bytes(one, {.more_bytes = 1'000'000})), Contains("is not where"));
  CHECK_THAT(refusal_of_file(zip_bytes(one, {.more_offset = 5})), Contains("is not where"));
  CHECK_THAT(refusal_of_file(zip_bytes(one, {.other_crc32 = 1})),
             Contains("is not what was written"));
  const ZipFiles twice{one[0], one[0]};
  CHECK_THAT(refusal_of_file(zip_bytes(twice)), Contains("is there twice"));
}

// torch.save writes archives of more than 4 GB like this. A member's zip64 field holds only the
// numbers that need more than 32 bits.
TEST_CASE("sizes and offsets of 64 bits are read") {
  const auto number = [](uint64_t value) { return bytes_of<uint64_t>({value}); };
  const std::string whole = zip_bytes({{"a", "hello"}, {"b", "you"}});
  const size_t directory = whole.find("PK\x01\x02");
  const size_t second = whole.find("PK\x01\x02", directory + 1);
  const size_t end = whole.find("PK\x05\x06");
  const auto with_field = [](std::string record, size_t place, size_t bytes,
                             const std::string& field) {
    record.replace(place, bytes, std::string(bytes, '\xff'));
    record.replace(30, 2, bytes_of<uint16_t>({static_cast<uint16_t>(field.size() + 4)}));
    return record + bytes_of<uint16_t>({1, static_cast<uint16_t>(field.size())}) + field;
  };
  const auto archive = [&](uint64_t size, uint64_t offset) {
    const std::string entries =
        with_field(whole.substr(directory, second - directory), 20, 8, number(size) + number(5)) +
        with_field(whole.substr(second, end - second), 42, 4, number(offset));
    const std::string end64 = "PK\x06\x06" + number(44) + std::string(12, '\0') + number(2) +
                              number(2) + number(entries.size()) + number(directory);
    const std::string locator = "PK\x06\x07" + std::string(4, '\0') +
                                number(directory + entries.size()) + bytes_of<uint32_t>({1});
    return whole.substr(0, directory) + entries + end64 + locator + "PK\x05\x06" +
           std::string(4, '\0') + std::string(12, '\xff') + std::string(2, '\0');
  };
  const uint64_t offset_of_b = whole.find("PK\x03\x04", 1);
  const std::string right = archive(5, offset_of_b);
  const auto archive_file = file_of(right);
  const auto members = read_zip(*archive_file);
  REQUIRE(members.size() == 2);
  CHECK(members.at("a").size_bytes == 5);
  CHECK(read_undamaged(*archive_file, members.at("a")) == "hello");
  CHECK(read_undamaged(*archive_file, members.at("b")));
  for (const uint64_t wrong : {uint64_t{7}, uint64_t{1} << 40, ~uint64_t{0}}) {
    const std::string bytes = archive(5, wrong);
    CHECK_THAT(refusal([&] { read_zip(*file_of(bytes)); }), Contains("'b' is not where"));
  }
  const std::string longer = archive(6, offset_of_b);
  CHECK_THAT(refusal([&] { read_zip(*file_of(longer)); }), Contains("is compressed"));
}

TEST_CASE(
    "a folder's safetensors come before its files of torch.save, and one of Git LFS is refused") {
  const TemporaryFolder folder;
  const auto shard = [](const std::string& name) {
    return torch_bytes("\x80\x02}" + pickled_text(name) + pickled_tensor({}) + "s.",
                       {{"0", kTwoFloats}});
  };
  folder.write("one.bin", shard("a"));
  folder.write("two.bin", shard("b"));
  const auto index = folder.write("pytorch_model.bin.index.json",
                                  R"({"weight_map":{"a":"one.bin","b":"two.bin"}})");
  CHECK(read_weights(folder.path()).size() == 2);
  CHECK(weight_files(folder.path()) ==
        std::vector<std::filesystem::path>{index, folder.path() / "one.bin",
                                           folder.path() / "two.bin"});
  const auto whole = folder.write("pytorch_model.bin", shard("whole"));
  CHECK(weight_files(folder.path()) == std::vector<std::filesystem::path>{whole});
  CHECK(read_weights(folder.path()).contains("whole"));
  folder.write("model.safetensors", counting_safetensors({{"c", {2}}}));
  CHECK(read_weights(folder.path()).contains("c"));
  // Git LFS writes such a file in the place of one that was not pulled.
  const TemporaryFolder other;
  other.write("pytorch_model.bin",
              "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  CHECK_THAT(refusal([&] { read_weights(other.path()); }), Contains("git lfs pull"));
}

}  // namespace
}  // namespace fsdp
