#include "trainer/data/data_set.h"

#include <sentencepiece_processor.h>

#include <algorithm>

#include "contract/inputs/inputs.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

using Row = std::vector<int64_t>;

struct InputsAndLabels {
  Row input_ids;
  Row labels;
};

InputsAndLabels read(DataSet& data_set, int64_t row) {
  const auto T = static_cast<size_t>(data_set.sequence_length());
  InputsAndLabels result{Row(T, -1), Row(T, -1)};
  data_set.read_row(row, result.input_ids.data(), result.labels.data());
  return result;
}

ChessDataSet chess(const std::vector<ChessGame>& games, int64_t sequence_length) {
  return ChessDataSet(games, open_tokenizer(tokenizer_file({})), sequence_length);
}

TEST_CASE("labels of a token row are its tokens, one further") {
  const TemporaryFolder folder;
  TokenDataSet data_set(TokenArray(folder.write("t.npy", npy_of(2, 4, {1, 2, 3, 4, 5, 6, 7, 8}))));
  CHECK(data_set.rows() == 2);
  CHECK(data_set.sequence_length() == 3);
  CHECK(data_set.label_count(1) == 3);
  const auto [input_ids, labels] = read(data_set, 1);
  CHECK(input_ids == Row{5, 6, 7});
  CHECK(labels == Row{6, 7, 8});
}

TEST_CASE("a chess row decodes to the game's moves and result between begin and end") {
  const std::string text = "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6";
  ChessDataSet data_set = chess({{text, "DRAW", "1/2-1/2"}}, 64);
  const auto [input_ids, labels] = read(data_set, 0);
  sentencepiece::SentencePieceProcessor processor;
  REQUIRE(processor.Load(tokenizer_file({}).string()).ok());

  const int64_t count = data_set.label_count(0);
  REQUIRE(count < 64);
  CHECK(input_ids[0] == processor.bos_id());
  CHECK(labels[count - 1] == processor.eos_id());
  std::string decoded;
  REQUIRE(processor.Decode(std::vector<int>(labels.begin(), labels.begin() + count - 1), &decoded)
              .ok());
  CHECK(decoded == text + " 1/2-1/2");
  for (int64_t t = 0; t < 64; ++t) {
    CHECK(labels[t] >= (t < count ? 0 : kNoLabel));
    if (t + 1 < count) CHECK(labels[t] == input_ids[t + 1]);
    if (t >= count) CHECK(input_ids[t] == processor.eos_id());
    if (t >= count) CHECK(labels[t] == kNoLabel);
  }
}

TEST_CASE("a long game is cut to the sequence, and the end is then no label") {
  const ChessGame game{"1. e4 e5 2. Nf3 Nc6 3. Bb5 a6", "DRAW", "1/2-1/2"};
  ChessDataSet whole = chess({game}, 64);
  ChessDataSet cut = chess({game}, 5);
  CHECK(cut.label_count(0) == 5);
  const auto [input_ids, labels] = read(cut, 0);
  const auto [whole_input_ids, whole_labels] = read(whole, 0);
  CHECK(input_ids == Row(whole_input_ids.begin(), whole_input_ids.begin() + 5));
  CHECK(labels == Row(whole_labels.begin(), whole_labels.begin() + 5));
}

TEST_CASE("the shipped games make a data set of the tokenizer's vocabulary") {
  const DataSets data_sets(resolved({}), 1024);
  DataSet* const data_set = data_sets.training().data_set;
  CHECK(data_set->rows() > 1000);
  CHECK(data_set->sequence_length() == 256);
  const auto [input_ids, labels] = read(*data_set, data_set->rows() - 1);
  CHECK(std::ranges::count_if(labels, [](int64_t label) { return label != kNoLabel; }) ==
        data_set->label_count(data_set->rows() - 1));
  CHECK(std::ranges::all_of(input_ids, [](int64_t id) { return id >= 0 && id < 1024; }));
}

TEST_CASE("a data set that does not fit the model is refused") {
  CHECK_THROWS_AS(DataSets(resolved({}), 1023), ConfigError);
}

}  // namespace
}  // namespace fsdp
