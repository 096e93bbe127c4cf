// Makes rows of documents for an encoder and a decoder.
#include "trainer/data/pair_set.h"

#include <algorithm>

namespace fsdp {

PairSet::PairSet(std::shared_ptr<const DocumentFile> documents, std::vector<int64_t> numbers,
                 const DataSpec& data, const ModelConfig& config)
    : documents_(std::move(documents)),
      numbers_(std::move(numbers)),
      most_{.input = data.input_length, .target = data.target_length},
      pads_to_longest_(data.rows == RowFill::kPadToLongest),
      start_id_(config.decoder_start_token_id),
      padding_id_(config.pad_token_id) {}

void PairSet::read(int64_t row) {
  documents_->read(numbers_[row], document_);
  const auto target =
      std::ranges::find_if(document_, [](uint32_t token) { return (token & kTrainedOn) != 0; });
  const auto copy = [](auto first, auto last, int64_t most, std::vector<int64_t>& out) {
    out.clear();
    for (; first != last && std::ssize(out) < most; ++first) out.push_back(token_id(*first));
  };
  copy(document_.begin(), target, most_.input, input_);
  copy(target, document_.end(), most_.target, target_);
}

RowSize PairSet::size_of(int64_t row) {
  read(row);
  return {.tokens = std::ssize(input_) + std::ssize(target_), .labels = std::ssize(target_)};
}

PairSet::Width PairSet::width_of(std::span<const int64_t> rows) {
  if (!pads_to_longest_) return most_;
  Width width;
  for (const int64_t row : rows) {
    read(row);
    width.input = std::max(width.input, std::ssize(input_));
    width.target = std::max(width.target, std::ssize(target_));
  }
  return width;
}

int64_t PairSet::batch_tokens(std::span<const int64_t> rows) {
  const Width width = width_of(rows);
  return std::ssize(rows) * (width.input + width.target);
}

Batch PairSet::load(std::span<const int64_t> rows, at::Device device) {
  const int64_t count = std::ssize(rows);
  const auto [input_width, target_width] = width_of(rows);
  const auto options = at::dtype(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor input_ids_BT = at::empty({count, input_width}, options).fill_(padding_id_);
  const at::Tensor decoder_input_ids_BT =
      at::empty({count, target_width}, options).fill_(padding_id_);
  const at::Tensor labels_BT = at::empty({count, target_width}, options).fill_(kNoLabel);
  const at::Tensor input_counts_B = at::empty({count}, options);
  for (int64_t b = 0; b < count; ++b) {
    read(rows[b]);
    const auto row_of = [&](const at::Tensor& ids, int64_t width) {
      return ids.data_ptr<int64_t>() + b * width;
    };
    std::ranges::copy(input_, row_of(input_ids_BT, input_width));
    std::ranges::copy(target_, row_of(labels_BT, target_width));
    int64_t* decoder_input = row_of(decoder_input_ids_BT, target_width);
    *decoder_input = start_id_;
    if (!target_.empty()) std::copy(target_.begin(), target_.end() - 1, decoder_input + 1);
    // For an empty input, the decoder sees one filling token.
    input_counts_B.data_ptr<int64_t>()[b] = std::max<int64_t>(1, std::ssize(input_));
  }
  const auto on_device = [&](const at::Tensor& ids) { return ids.to(device, true); };
  return {.input_ids_BT = on_device(input_ids_BT),
          .labels_BT = on_device(labels_BT),
          .decoder_input_ids_BT = on_device(decoder_input_ids_BT),
          .input_counts_B = on_device(input_counts_B)};
}

}  // namespace fsdp
