#include "trainer/data/batches.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "tests/trainer/data/listed_documents.h"

namespace fsdp::batches_test {

RunSpec spec_of(int64_t ranks, int64_t size_per_rank, int64_t total) {
  RunSpec spec;
  spec.strategy.kind = ranks == 1 ? StrategyKind::kSingle : StrategyKind::kDdp;
  spec.strategy.ranks = ranks;
  spec.batch.size_per_rank = size_per_rank;
  spec.batch.total = total;
  return resolved(spec);
}

using TokenLists = std::vector<std::vector<int64_t>>;

struct Share {
  int64_t step = 0, rank = 0, ranks = 1, size_per_rank = 1, total = 2;
};

// Loads one rank's share of a step, without shuffling.
StepBatches load(SequenceSet data_set, const Share& share) {
  Sampler sampler(data_set.rows(), share.total, /*shuffle=*/false, 1);
  return load_step(data_set, sampler, share.step, share.rank,
                   spec_of(share.ranks, share.size_per_rank, share.total), at::kCPU);
}

TEST_CASE("each rank gets its rows as micro-batches, in order") {
  TokenLists documents;  // row r holds 10 r, 10 r + 1, 10 r + 2
  for (int64_t row = 1; row <= 16; ++row) {
    documents.push_back({-10 * row, -10 * row - 1, -10 * row - 2});
  }
  // Rows 12, 13 and 14, 15.
  const StepBatches step = load(listed(documents, 2, RowFill::kPad),
                                {.step = 1, .rank = 1, .ranks = 2, .size_per_rank = 2, .total = 8});
  CHECK(step.label_count == 16);
  CHECK(step.tokens == 16);
  REQUIRE(step.micro_batches.size() == 2);
  const Batch& second = step.micro_batches[1];
  CHECK(second.input_ids_BT.equal(at::tensor({150, 151, 160, 161}, at::kLong).view({2, 2})));
  CHECK(second.labels_BT.equal(at::tensor({151, 152, 161, 162}, at::kLong).view({2, 2})));
  CHECK(second.loss_scale == 1.0 / 16);
  CHECK(second.documents == nullptr);
}

// Documents of very different lengths. Only some of their tokens are trained on.
const TokenLists kUneven{
    {1, -2}, {-3, -4, -5, -6, -7, -8, -9, -10, -11}, {12, 13, 14, 15}, {16, 17, 18, -19}};

TEST_CASE("every label of a step weighs the same, however uneven the ranks' shares are") {
  const RowFill fill = GENERATE(RowFill::kPad, RowFill::kPadToLongest, RowFill::kPack);
  for (const int64_t ranks : {1, 2, 4}) {
    double sum = 0;
    int64_t tokens = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      SequenceSet own = listed(kUneven, 8, fill);
      const int64_t total = std::min<int64_t>(4, own.rows() / ranks * ranks);
      if (total == 0) continue;
      Sampler sampler(own.rows(), total, /*shuffle=*/true, 5);
      const StepBatches step = load_step(own, sampler, 0, rank, spec_of(ranks, 1, total), at::kCPU);
      for (const Batch& batch : step.micro_batches) {
        const auto labels = batch.labels_BT.ne(kNoLabel).sum().item<int64_t>();
        sum += batch.loss_scale * static_cast<double>(labels);
        tokens += batch.input_ids_BT.numel();
      }
      if (rank == ranks - 1) CHECK(tokens == step.tokens);
    }
    if (tokens > 0) CHECK(sum == Approx(1.0));
  }
}

TEST_CASE("a step counts what is read, what fills nothing up, and what is trained on") {
  const auto counts = [](RowFill fill, int64_t size_per_rank, int64_t total) {
    const StepBatches step =
        load(listed(kUneven, 8, fill), {.size_per_rank = size_per_rank, .total = total});
    return std::vector<int64_t>{step.tokens, step.unpadded_tokens, step.label_count};
  };
  CHECK(counts(RowFill::kPad, 2, 4) == std::vector<int64_t>{32, 15, 10});
  CHECK(counts(RowFill::kPadToLongest, 2, 4) == std::vector<int64_t>{2 * 8 + 2 * 3, 15, 10});
  CHECK(counts(RowFill::kPadToLongest, 1, 4) == std::vector<int64_t>{15, 15, 10});
  CHECK(counts(RowFill::kPack, 1, 3) == std::vector<int64_t>{24, 15, 10});
}

TEST_CASE("packed rows say where their documents begin, what fills them up being one too") {
  SequenceSet data_set = listed(kUneven, 8, RowFill::kPack);
  const Batch batch = data_set.load(std::vector<int64_t>{0, 2}, at::kCPU);
  REQUIRE(batch.documents != nullptr);
  CHECK(batch.documents->starts == std::vector<int64_t>{0, 1, 8, 11, 14, 16});
}

TEST_CASE("a step that trains on nothing has a loss of 0, not of 0 / 0") {
  const StepBatches step =
      load(listed({{1, 2, 3}, {4, 5}}, 4, RowFill::kPad), {.size_per_rank = 2});
  CHECK(step.label_count == 0);
  CHECK(step.micro_batches[0].loss_scale == 0.0);
}

TEST_CASE("the seed of a micro-batch follows from its place among those of all ranks") {
  const TokenLists documents(16, {-1, -2, -3});
  const auto seeds = [&](int64_t step, int64_t ranks) {
    std::vector<uint64_t> all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const StepBatches own =
          load(listed(documents, 2, RowFill::kPad),
               {.step = step, .rank = rank, .ranks = ranks, .size_per_rank = 2, .total = 8});
      for (const Batch& batch : own.micro_batches) all.push_back(batch.seed);
    }
    return all;
  };
  const std::vector<uint64_t> first = seeds(0, 1);
  CHECK(first == seeds(0, 2));
  CHECK(first == seeds(0, 4));
  std::set<uint64_t> different(first.begin(), first.end());
  for (const uint64_t seed : seeds(1, 1)) different.insert(seed);
  CHECK(different.size() == 8);
}

TEST_CASE("what is computed of a batch are its rows with their filling, and its documents") {
  const StepBatches step = load(listed(kUneven, 8, RowFill::kPad), {.size_per_rank = 2});
  const BatchShape shape = shape_of(step.micro_batches.front());
  CHECK(shape.rows == 2);
  CHECK(shape.tokens == 8);
  CHECK(shape.decoder_tokens == 0);
  CHECK(shape.document_tokens.empty());

  const Batch packed{.input_ids_BT = at::zeros({2, 8}, at::kLong),
                     .labels_BT = at::zeros({2, 8}, at::kLong),
                     .documents = make_documents({3, 5, 8}, 8, at::kCPU)};
  CHECK(shape_of(packed).document_tokens == std::vector<int64_t>{3, 5, 8});
  const Batch pairs{.input_ids_BT = at::zeros({2, 8}, at::kLong),
                    .labels_BT = at::zeros({2, 5}, at::kLong),
                    .decoder_input_ids_BT = at::zeros({2, 5}, at::kLong)};
  CHECK(shape_of(pairs).tokens == 8);
  CHECK(shape_of(pairs).decoder_tokens == 5);
}

}  // namespace fsdp::batches_test
