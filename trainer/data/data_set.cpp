#include "trainer/data/data_set.h"

#include <algorithm>

#include "contract/inputs/inputs.h"
#include "contract/text/config_error.h"

namespace fsdp {

TokenDataSet::TokenDataSet(TokenArray tokens)
    : tokens_(std::move(tokens)), row_(static_cast<size_t>(tokens_.columns())) {}

void TokenDataSet::read_row(int64_t row, int64_t* input_ids, int64_t* labels) {
  tokens_.read_row(row, row_.data());
  std::copy(row_.begin(), row_.end() - 1, input_ids);
  std::copy(row_.begin() + 1, row_.end(), labels);
}

ChessDataSet::ChessDataSet(std::vector<ChessGame> games, std::unique_ptr<Tokenizer> tokenizer,
                           int64_t sequence_length)
    : games_(std::move(games)),
      tokenizer_(std::move(tokenizer)),
      sequence_length_(sequence_length),
      tokens_(games_.size()) {}

const std::vector<int32_t>& ChessDataSet::tokens_of(int64_t row) {
  std::vector<int32_t>& tokens = tokens_[row];
  if (tokens.empty()) {
    tokens.push_back(*tokenizer_->ends().begin);
    tokenizer_->encode(games_[row].moves + ' ' + games_[row].result, tokens);
    tokens.push_back(*tokenizer_->ends().end);
    if (std::ssize(tokens) > sequence_length_ + 1) tokens.resize(sequence_length_ + 1);
  }
  return tokens;
}

int64_t ChessDataSet::label_count(int64_t row) { return std::ssize(tokens_of(row)) - 1; }

void ChessDataSet::read_row(int64_t row, int64_t* input_ids, int64_t* labels) {
  const std::vector<int32_t>& tokens = tokens_of(row);
  int64_t* const inputs_end = std::copy(tokens.begin(), tokens.end() - 1, input_ids);
  std::fill(inputs_end, input_ids + sequence_length_, *tokenizer_->ends().end);
  int64_t* const labels_end = std::copy(tokens.begin() + 1, tokens.end(), labels);
  std::fill(labels_end, labels + sequence_length_, kNoLabel);
}

namespace {

std::unique_ptr<DataSet> open_data_set(const DataSpec& data, const std::filesystem::path& file) {
  switch (data.kind) {
    case DataKind::kTokens:
      return std::make_unique<TokenDataSet>(TokenArray(file));
    case DataKind::kChess:
      return std::make_unique<ChessDataSet>(
          read_chess_games(file), open_tokenizer(tokenizer_file(data)), data.sequence_length);
  }
  throw std::logic_error("data.kind");
}

}  // namespace

DataSets::DataSets(const RunSpec& spec, int64_t vocab_size) {
  check_data(spec, vocab_size);
  training_ = open_data_set(spec.data, training_file(spec.data));
  held_out_ = held_out_rows(spec.evaluation, training_->rows());
  if (!spec.evaluation.data.empty()) validation_ = open_data_set(spec.data, spec.evaluation.data);
}

RowRange DataSets::validation() const {
  if (validation_) return {validation_.get(), 0, validation_->rows()};
  return {training_.get(), training_->rows() - held_out_, training_->rows()};
}

}  // namespace fsdp
