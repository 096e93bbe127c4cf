#include "trainer/data/sequence_set.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <set>

#include "base/files/file_digest.h"
#include "contract/record/run_paths.h"
#include "formats/inputs/inputs.h"
#include "tests/contract/input_fixtures.h"
#include "tests/trainer/data/listed_documents.h"
#include "trainer/data/data_sets.h"
#include "trainer/model/model.h"

namespace fsdp::sequence_set_test {

using Row = std::vector<int64_t>;

struct InputsAndLabels {
  Row input_ids;
  Row labels;
};

InputsAndLabels read(SequenceSet& data_set, int64_t row) {
  const int64_t T = data_set.sequence_length();
  InputsAndLabels result{Row(static_cast<size_t>(T), -1), Row(static_cast<size_t>(T), -1)};
  data_set.read_row(row, T, result.input_ids.data(), result.labels.data());
  return result;
}

constexpr int64_t kNone = kNoLabel;

TEST_CASE("a padded row holds one document, and labels only what is trained on") {
  SequenceSet data_set =
      listed({{1, 2, -3, -4}, {5}, {-6, -7, -8, -9, -10, -11}}, 4, RowFill::kPad);
  REQUIRE(data_set.rows() == 3);
  CHECK(read(data_set, 0).input_ids == Row{1, 2, 3, kPadding});
  CHECK(read(data_set, 0).labels == Row{kNone, 3, 4, kNone});
  CHECK(data_set.size_of(0).tokens == 3);
  CHECK(data_set.size_of(0).labels == 2);
  CHECK(read(data_set, 1).input_ids == Row(4, kPadding));
  CHECK(data_set.size_of(1).labels == 0);
  CHECK(read(data_set, 2).input_ids == Row{6, 7, 8, 9});  // cut to the sequence length
  CHECK(read(data_set, 2).labels == Row{7, 8, 9, 10});
  CHECK(data_set.size_of(2).labels == 4);
}

TEST_CASE("documents are packed in order, each whole, and none labels the next one's begin") {
  SequenceSet data_set =
      listed({{-1, -2, -3}, {-4, -5}, {-6, -7, -8}, {9, -10}, {-11, -12, -13, -14, -15, -16}}, 5,
             RowFill::kPack);
  REQUIRE(data_set.rows() == 2 + 1);
  CHECK(read(data_set, 0).input_ids == Row{1, 2, 4, 6, 7});
  CHECK(read(data_set, 0).labels == Row{2, 3, 5, 7, 8});
  CHECK(data_set.document_lengths(0) == Row{2, 1, 2});
  CHECK(data_set.size_of(0).tokens == 5);
  CHECK(read(data_set, 1).input_ids == Row{9, kPadding, kPadding, kPadding, kPadding});
  CHECK(data_set.document_lengths(1) == Row{1});
  CHECK(read(data_set, 2).labels == Row{12, 13, 14, 15, 16});
  CHECK(data_set.size_of(2).labels == 5);
}

TEST_CASE("a long text goes on in the next row, where no token is a label twice or never") {
  const std::vector<std::vector<int64_t>> documents{
      {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11}, {-12, -13, -14}, {-15, -16, -17, -18, -19}};
  SequenceSet padded = listed(documents, 4, RowFill::kPad, DataKind::kText);
  REQUIRE(padded.rows() == 3 + 1 + 1);
  CHECK(read(padded, 1).input_ids == Row{5, 6, 7, 8});
  CHECK(read(padded, 1).labels == Row{6, 7, 8, 9});
  CHECK(read(padded, 2).labels == Row{10, 11, kNone, kNone});
  CHECK(padded.size_of(2).tokens == 2);
  CHECK(padded.size_of(2).labels == 2);
  CHECK(read(padded, 4).labels == Row{16, 17, 18, 19});

  SequenceSet packed = listed(documents, 4, RowFill::kPack, DataKind::kText);
  REQUIRE(packed.rows() == 2 + 1 + 1);
  CHECK(read(packed, 2).labels == Row{10, 11, 13, 14});
  CHECK(packed.document_lengths(2) == Row{2, 2});
}

TEST_CASE("packing loses and doubles nothing, whatever the lengths") {
  std::vector<std::vector<int64_t>> documents;
  int64_t next = 1;
  for (int64_t i = 0; i < 200; ++i) {
    auto& document = documents.emplace_back();
    for (int64_t k = 0; k <= i * 7 % 16; ++k) document.push_back(-next++);
  }
  SequenceSet data_set = listed(documents, 20, RowFill::kPack);
  std::set<int64_t> seen;
  int64_t labels = 0;
  for (int64_t row = 0; row < data_set.rows(); ++row) {
    for (const int64_t label : read(data_set, row).labels) {
      if (label == kNoLabel) continue;
      CHECK(seen.insert(label).second);
      ++labels;
    }
  }
  int64_t expected = 0;
  for (const auto& document : documents) expected += std::ssize(document) - 1;
  CHECK(labels == expected);
}

struct ChessRun {
  std::string refusal_of() const {
    return refusal([&] { DataSets(spec, spec.model.config, run_folder, file_digest); });
  }

  TemporaryFolder folder;
  std::filesystem::path run_folder = folder.path() / "results/runs/chess/run";
  std::filesystem::path prepared = prepared_folder(results_of_run(run_folder));
  RunSpec spec = resolved({});
  DataSource source = data_source(spec, training_file(spec.data));
  std::string name = prepared_name(source, file_digest);
};

TEST_CASE("the shipped games make a data set, whose rows decode to moves and result") {
  ChessRun run;
  run.spec.data.sequence_length = 512;
  run.spec.model.config.max_position_embeddings = 512;
  run.spec.evaluation.fraction = 0.01;
  const DataSets data_sets(run.spec, run.spec.model.config, run.folder.path(), file_digest);
  auto& data_set = dynamic_cast<SequenceSet&>(data_sets.training());
  CHECK(data_set.rows() > 1000);
  REQUIRE(data_sets.validation() != nullptr);
  CHECK(data_sets.validation()->rows() ==
        held_out_rows(run.spec.evaluation, data_set.rows() + data_sets.validation()->rows()));
  const auto [input_ids, labels] = read(data_set, 0);
  const int64_t count = data_set.size_of(0).labels;
  REQUIRE(count < 512);
  sentencepiece::SentencePieceProcessor processor;
  REQUIRE(processor.Load(tokenizer_of(run.spec).string()).ok());
  CHECK(input_ids[0] == processor.bos_id());
  CHECK(labels[count - 1] == processor.eos_id());
  std::string decoded;
  REQUIRE(processor.Decode(std::vector<int>(labels.begin(), labels.begin() + count - 1), &decoded)
              .ok());
  CHECK(decoded.starts_with("1. "));
  CHECK((decoded.ends_with(" 1-0") || decoded.ends_with(" 0-1") || decoded.ends_with(" 1/2-1/2")));
  for (int64_t t = count; t < 512; ++t) {
    CHECK(input_ids[t] == processor.eos_id());
    CHECK(labels[t] == kNoLabel);
  }
}

TEST_CASE("a split by seed is that of PyTorch's random_split") {
  const TemporaryFolder folder;
  RunSpec spec;
  spec.data.kind = DataKind::kTokens;
  spec.data.sequence_length = 1;
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 10; ++i) tokens.insert(tokens.end(), {i, i});
  spec.data.train = folder.write("t.npy", npy_of(10, 2, tokens));
  spec.evaluation.fraction = 0.3;
  spec.evaluation.split_seed = 42;
  spec = resolved(spec);
  const DataSets data_sets(spec, {.vocab_size = 16}, folder.path(), file_digest);
  const auto rows_of = [](DataSet& any) {
    auto& data_set = dynamic_cast<SequenceSet&>(any);
    Row rows;
    for (int64_t row = 0; row < data_set.rows(); ++row) {
      rows.push_back(read(data_set, row).input_ids[0]);
    }
    return rows;
  };
  // The order is torch.randperm(10, generator=torch.Generator().manual_seed(42)).
  CHECK(rows_of(data_sets.training()) == Row{2, 6, 1, 8, 4, 5, 0});
  CHECK(rows_of(*data_sets.validation()) == Row{9, 3, 7});
}

TEST_CASE("a prepared file of the results that is half zeroed is refused by a rank") {
  const ChessRun run;
  prepared_file(run.source, run.prepared, run.name);
  const auto size = std::filesystem::file_size(run.prepared / run.name);
  std::filesystem::resize_file(run.prepared / run.name, size / 2);
  std::filesystem::resize_file(run.prepared / run.name, size);
  CHECK_THAT(run.refusal_of(), Catch::Contains(run.name + ": is damaged"));
}

TEST_CASE("a prepared file of another vocabulary is refused by a rank, whatever its checksums") {
  const ChessRun run;
  std::filesystem::create_directories(run.prepared);
  const int64_t vocab_size = run.spec.model.config.vocab_size;
  const auto [token, padding_id] =
      GENERATE_REF(std::pair(vocab_size, int64_t{0}), std::pair(int64_t{0}, vocab_size));
  PreparedWriter writer(run.prepared / run.name, padding_id);
  for (int i = 0; i < 100; ++i) writer.add({1, static_cast<uint32_t>(token) | kTrainedOn});
  writer.finish();
  CHECK_THAT(run.refusal_of(),
             Catch::Contains(".tokens: holds the token " + std::to_string(vocab_size) +
                             ", but the model's vocabulary has"));
}

TEST_CASE("a data set that does not fit the model is refused") {
  ChessRun run;
  CHECK_THROWS_AS(DataSets(run.spec, {.vocab_size = 1023}, run.folder.path(), file_digest),
                  ConfigError);
}

TEST_CASE("a packed data set of too few rows is refused") {
  ChessRun run;
  run.spec.data.rows = RowFill::kPack;
  run.spec.data.train = run.folder.write(
      "g.csv", "Moves,Termination,Result\n1. e4,a,1-0\n1. e4,a,1-0\n1. e4,a,1-0\n1. e4,a,1-0\n");
  CHECK_THAT(run.refusal_of(), Catch::Contains("has 4 documents, which make 1 rows"));
}

}  // namespace fsdp::sequence_set_test
