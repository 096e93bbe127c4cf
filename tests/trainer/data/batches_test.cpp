#include "trainer/data/batches.h"

#include <set>

#include "contract/inputs/inputs.h"
#include "tests/contract/input_fixtures.h"

namespace fsdp {
namespace {

RunSpec spec_of(int64_t ranks, int64_t size_per_rank, int64_t total) {
  RunSpec spec;
  spec.strategy.kind = ranks == 1 ? StrategyKind::kSingle : StrategyKind::kDdp;
  spec.strategy.ranks = ranks;
  spec.batch.size_per_rank = size_per_rank;
  spec.batch.total = total;
  return resolved(spec);
}

TEST_CASE("each rank gets its rows as micro-batches, in order") {
  const TemporaryFolder folder;
  std::vector<int32_t> tokens;  // row r holds 10 r, 10 r + 1, 10 r + 2
  for (int32_t row = 0; row < 16; ++row) {
    for (int32_t column = 0; column < 3; ++column) tokens.push_back(10 * row + column);
  }
  TokenDataSet data_set(TokenArray(folder.write("tokens.npy", npy_of(16, 3, tokens))));
  Sampler sampler(16, 8, /*shuffle=*/false, 1);
  // Step 1, rank 1 of 2, micro-batches of 2: rows 12, 13 and 14, 15.
  const StepBatches step = load_step(data_set, sampler, 1, 1, spec_of(2, 2, 8), at::kCPU);
  CHECK(step.label_count == 16);
  REQUIRE(step.micro_batches.size() == 2);
  const Batch& second = step.micro_batches[1];
  CHECK(second.input_ids_BT.equal(at::tensor({140, 141, 150, 151}, at::kLong).view({2, 2})));
  CHECK(second.labels_BT.equal(at::tensor({141, 142, 151, 152}, at::kLong).view({2, 2})));
  CHECK(second.loss_scale == 1.0 / 16);
}

TEST_CASE("loss_scale counts the labels of all ranks when games differ in length") {
  const std::vector<ChessGame> games{{"1. e4", "DRAW", "1/2-1/2"},
                                     {"1. e4 e5 2. Nf3 Nc6 3. Bb5 a6", "CHECKMATE", "1-0"},
                                     {"", "ABANDONED", "0-1"},
                                     {"1. d4 d5 2. c4", "DRAW", "1/2-1/2"}};
  const auto data = [&] { return ChessDataSet(games, open_tokenizer(tokenizer_file({})), 12); };
  ChessDataSet reference = data();
  int64_t labels = 0;
  std::set<int64_t> counts;
  for (int64_t row = 0; row < 4; ++row) {
    labels += reference.label_count(row);
    counts.insert(reference.label_count(row));
  }
  REQUIRE(counts.size() > 2);  // unequal padding

  for (const int64_t ranks : {1, 2, 4}) {
    double sum = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      ChessDataSet own = data();
      Sampler sampler(4, 4, /*shuffle=*/true, 5);
      const StepBatches step = load_step(own, sampler, 0, rank, spec_of(ranks, 1, 4), at::kCPU);
      CHECK(step.label_count == labels);
      for (const Batch& batch : step.micro_batches) {
        sum += batch.loss_scale * batch.labels_BT.ne(kNoLabel).sum().item<double>();
      }
    }
    CHECK(sum == Approx(1.0));  // every label of the step weighs 1 / labels, once
  }
}

}  // namespace
}  // namespace fsdp
