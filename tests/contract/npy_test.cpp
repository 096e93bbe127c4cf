#include "formats/data/document.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Catch::Contains;

std::string header(const std::string& descr, const std::string& fortran_order,
                   const std::string& shape) {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran_order + ", 'shape': " + shape +
         ", }   \n";
}

// Opens an array of 3 columns, for a vocabulary of 10 tokens.
std::unique_ptr<DocumentFile> open_rows(const std::filesystem::path& file) {
  return open_token_file(file, 2, 10);
}

std::string refusal_of_npy(const std::string& file_bytes) {
  const TemporaryFolder folder;
  const auto file = folder.write("tokens.npy", file_bytes);
  const std::string message = refusal([&] { open_rows(file); });
  CHECK_THAT(message, Contains(file.string()));
  return message;
}

template <typename Item>
void check_reads(const std::string& descr, char version) {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "tokens.npy",
      npy_bytes(header(descr, "False", "(2, 3)"), bytes_of<Item>({5, 1, 2, 3, 9, 4}), version));
  const auto rows = open_rows(file);
  CHECK(rows->count() == 2);
  CHECK(rows->length(1) == 3);
  Document row;
  rows->read(1, row);
  CHECK(row == Document{3 | kTrainedOn, 9 | kTrainedOn, 4 | kTrainedOn});
  rows->read(1, 1, 5, row);
  CHECK(row == Document{9 | kTrainedOn, 4 | kTrainedOn});
  const auto refuses = [&](Item token, const std::string& text) {
    CHECK_THAT(refusal_of_npy(npy_bytes(header(descr, "False", "(1, 3)"),
                                        bytes_of<Item>({5, token, 1}), version)),
               Contains(text));
  };
  refuses(-4, "holds the token -4");
  refuses(10, "holds the token 10, but the model's vocabulary has 10 tokens");
}

TEST_CASE("int32 and int64 arrays of .npy versions 1 to 3 are read") {
  for (const char version : {'\1', '\2', '\3'}) {
    check_reads<int32_t>("'<i4'", version);
    check_reads<int64_t>("\"<i8\"", version);
  }
}

TEST_CASE("an empty token array has no rows") {
  CHECK(open_rows(TemporaryFolder().write("tokens.npy", npy_of(0, 3, {})))->count() == 0);
}

TEST_CASE("a .npy file cut short anywhere is refused, and one with bytes left over") {
  const std::string whole = npy_of(2, 2, {1, 2, 3, 4});
  for (size_t size = 0; size < whole.size(); ++size) refusal_of_npy(whole.substr(0, size));
  CHECK_THAT(refusal_of_npy(whole.substr(0, whole.size() - 1)), Contains("cut short"));
  CHECK_THAT(refusal_of_npy(whole + "x"), Contains("does not fit its 17 bytes"));
}

TEST_CASE("arrays that are not int32 or int64 in C order with two dimensions are refused") {
  const std::string data = bytes_of<int32_t>({1, 2, 3, 4});
  const auto message = [&](const std::string& descr, const std::string& order,
                           const std::string& shape) {
    return refusal_of_npy(npy_bytes(header(descr, order, shape), data));
  };
  CHECK_THAT(message("'>i4'", "False", "(2, 2)"), Contains("(big-endian)") && Contains("'<i4'"));
  CHECK_THAT(message("'<f4'", "False", "(2, 2)"), Contains("has dtype \"<f4\""));
  CHECK_THAT(message("'<u2'", "False", "(2, 4)"), Contains("has dtype \"<u2\""));
  CHECK_THAT(message("[('a', '<i4')]", "False", "(2, 2)"), Contains("has dtype [[\"a\""));
  CHECK_THAT(message("'<i4'", "True", "(2, 2)"), Contains("Fortran order"));
  CHECK_THAT(message("'<i4'", "False", "(4,)"), Contains("shape [4], not two dimensions"));
  CHECK_THAT(message("'<i4'", "False", "()"), Contains("not two dimensions"));
  CHECK_THAT(message("'<i4'", "False", "(1, 2, 2)"), Contains("not two dimensions"));
  CHECK_THAT(message("'<i4'", "False", "(-2, -2)"), Contains("not two dimensions"));
  CHECK_THAT(message("'<i4'", "False", "(2, 3)"), Contains("does not fit its 16 bytes"));
  // 4 * 2^31 * 2^31 overflows to 0.
  CHECK_THAT(refusal_of_npy(npy_bytes(header("'<i4'", "False", "(2147483648, 2147483648)"), "")),
             Contains("does not fit its 0 bytes"));
}

TEST_CASE("files that are no .npy, of an unknown version, or without a proper header are refused") {
  CHECK_THAT(refusal_of_npy("PK\3\4 a zip file"), Contains("is no .npy file"));
  CHECK_THAT(refusal_of_npy(npy_bytes("{}", "", 4)), Contains("version 4; allowed: 1, 2, 3"));
  CHECK_THAT(refusal_of_npy(npy_bytes("{}", "")), Contains("without descr"));
  CHECK_THAT(refusal_of_npy(npy_bytes("{'descr': ", "")), Contains("is not JSON"));
  std::string zeros = header("'<i4'", "False", "(0, 2)");  // with a NUL, which NumPy refuses, too
  zeros[zeros.size() - 2] = '\0';
  CHECK_THAT(refusal_of_npy(npy_bytes(zeros, "")), Contains("damaged header"));
  CHECK_THAT(refusal([] { open_rows("/nowhere.npy"); }), Contains("cannot be read"));
}

}  // namespace
}  // namespace fsdp
