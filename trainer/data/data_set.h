#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "contract/inputs/chess_games.h"
#include "contract/inputs/npy.h"
#include "contract/spec/run_spec.h"
#include "contract/tokenizers/tokenizer.h"
#include "trainer/model/model.h"

namespace fsdp {

// The rows that a model is trained on, each T = sequence_length() tokens and their labels. Not
// thread-safe: rows may be made on first use.
class DataSet {
 public:
  virtual ~DataSet() = default;

  virtual int64_t rows() const = 0;
  virtual int64_t sequence_length() const = 0;
  // How many labels of the row are not kNoLabel.
  virtual int64_t label_count(int64_t row) = 0;
  // Writes T input ids and T labels; labels[t] is the token that follows input_ids[t].
  virtual void read_row(int64_t row, int64_t* input_ids, int64_t* labels) = 0;
};

// A .npy array of T + 1 tokens a row, each of which is trained on.
class TokenDataSet : public DataSet {
 public:
  explicit TokenDataSet(TokenArray tokens);

  int64_t rows() const override { return tokens_.rows(); }
  int64_t sequence_length() const override { return tokens_.columns() - 1; }
  int64_t label_count(int64_t) override { return sequence_length(); }
  void read_row(int64_t row, int64_t* input_ids, int64_t* labels) override;

 private:
  TokenArray tokens_;
  std::vector<int64_t> row_;
};

// One game a row: "<moves> <result>" between the begin and end tokens, cut to T + 1 tokens, padded
// with the end token and kNoLabel. A game is tokenized when its row is first asked for.
class ChessDataSet : public DataSet {
 public:
  ChessDataSet(std::vector<ChessGame> games, std::unique_ptr<Tokenizer> tokenizer,
               int64_t sequence_length);

  int64_t rows() const override { return static_cast<int64_t>(games_.size()); }
  int64_t sequence_length() const override { return sequence_length_; }
  int64_t label_count(int64_t row) override;
  void read_row(int64_t row, int64_t* input_ids, int64_t* labels) override;

 private:
  const std::vector<int32_t>& tokens_of(int64_t row);

  std::vector<ChessGame> games_;
  std::unique_ptr<Tokenizer> tokenizer_;
  int64_t sequence_length_;
  std::vector<std::vector<int32_t>> tokens_;  // empty: not tokenized yet
};

// The rows [first, last) of a data set.
struct RowRange {
  DataSet* data_set = nullptr;
  int64_t first = 0;
  int64_t last = 0;

  int64_t size() const { return last - first; }
};

// What a run reads.
class DataSets {
 public:
  // The sets that `spec` names. Throws ConfigError when a file is not what it should be, and when
  // the model's vocabulary of `vocab_size` tokens is too small for a tokenizer's.
  DataSets(const RunSpec& spec, int64_t vocab_size);

  RowRange training() const { return {training_.get(), 0, training_->rows() - held_out_}; }
  // Empty when the run has no validation set.
  RowRange validation() const;

 private:
  std::unique_ptr<DataSet> training_;
  std::unique_ptr<DataSet> validation_;  // null: the rows held out of the training set
  int64_t held_out_;
};

}  // namespace fsdp
