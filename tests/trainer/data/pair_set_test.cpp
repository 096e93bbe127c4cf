#include "trainer/data/pair_set.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/trainer/data/listed_documents.h"

namespace fsdp::pair_set_test {

using Row = std::vector<int64_t>;

PairSet pairs(const std::vector<Row>& documents, RowFill rows) {
  DataSpec data;
  data.rows = rows;
  data.input_length = 4;
  data.target_length = 3;
  std::vector<int64_t> numbers(documents.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return PairSet(std::make_shared<ListedDocuments>(documents), numbers, data,
                 {.decoder_start_token_id = 7, .pad_token_id = 9});
}

at::Tensor rows_of(const std::vector<Row>& rows) {
  at::Tensor tensor = at::empty({std::ssize(rows), std::ssize(rows[0])}, at::kLong);
  for (size_t i = 0; i < rows.size(); ++i) {
    tensor[static_cast<int64_t>(i)].copy_(at::tensor(rows[i], at::kLong));
  }
  return tensor;
}

// The third is too long in both parts; the last has no input.
const std::vector<Row> kDocuments{
    {1, 2, -3, -4}, {1, -2}, {1, 2, 3, 4, 5, -6, -1, -2, -3}, {-5, -6}};

TEST_CASE("the encoder reads what is not trained on, the decoder says the rest behind its start") {
  PairSet set = pairs(kDocuments, RowFill::kPad);
  REQUIRE(set.rows() == 4);
  const Batch batch = set.load(Row{0, 2}, at::kCPU);
  CHECK(batch.input_ids_BT.equal(rows_of({{1, 2, 9, 9}, {1, 2, 3, 4}})));
  CHECK(batch.input_counts_B.equal(at::tensor({2, 4}, at::kLong)));
  CHECK(batch.labels_BT.equal(rows_of({{3, 4, kNoLabel}, {6, 1, 2}})));
  CHECK(batch.decoder_input_ids_BT.equal(rows_of({{7, 3, 9}, {7, 6, 1}})));
  CHECK(set.size_of(0).tokens == 4);
  CHECK(set.size_of(0).labels == 2);
  CHECK(set.size_of(2).tokens == 7);
  CHECK(set.batch_tokens(Row{0, 2}) == 14);
}

TEST_CASE("a batch of pairs may be as wide as its longest input and target") {
  PairSet set = pairs(kDocuments, RowFill::kPadToLongest);
  const Batch batch = set.load(Row{0, 1}, at::kCPU);
  CHECK(batch.input_ids_BT.equal(rows_of({{1, 2}, {1, 9}})));
  CHECK(batch.labels_BT.equal(rows_of({{3, 4}, {2, kNoLabel}})));
  CHECK(batch.decoder_input_ids_BT.equal(rows_of({{7, 3}, {7, 9}})));
  CHECK(set.batch_tokens(Row{0, 1}) == 8);
}

TEST_CASE("of an empty input the decoder sees the filling") {
  PairSet set = pairs(kDocuments, RowFill::kPad);
  const Batch batch = set.load(Row{3}, at::kCPU);
  CHECK(batch.input_ids_BT.equal(rows_of({{9, 9, 9, 9}})));
  CHECK(batch.input_counts_B.item<int64_t>() == 1);
  CHECK(batch.decoder_input_ids_BT.equal(rows_of({{7, 5, 9}})));
}

}  // namespace fsdp::pair_set_test
