// Makes a batch of full rows for plans and calibrations, which need no data.
#include "trainer/data/full_batch.h"

#include <ATen/ATen.h>

#include "contract/families/family.h"

namespace fsdp {

Batch full_batch(const DataSpec& data, const ModelConfig& config, int64_t rows, at::Device device) {
  const auto ids = [&](int64_t width) {
    const auto options = at::TensorOptions(at::kLong).device(device);
    if (device.is_meta()) return at::empty({rows, width}, options);
    return at::randint(config.vocab_size, {rows, width}, options);
  };
  if (family_of(config).structure == ModelStructure::kEncoderDecoder) {
    Batch batch{.input_ids_BT = ids(data.input_length),
                .labels_BT = ids(data.target_length),
                .loss_scale = 1.0 / static_cast<double>(rows * data.target_length),
                .decoder_input_ids_BT = ids(data.target_length),
                .input_counts_B = ids(1).flatten()};
    if (!device.is_meta()) batch.input_counts_B.fill_(data.input_length);
    return batch;
  }
  Batch batch{.input_ids_BT = ids(data.sequence_length),
              .labels_BT = ids(data.sequence_length),
              .loss_scale = 1.0 / static_cast<double>(rows * data.sequence_length),
              .lengths_vary = data.rows == RowFill::kPadToLongest};
  if (data.rows == RowFill::kPack) {
    batch.documents = make_documents(std::vector<int64_t>(rows, data.sequence_length),
                                     data.sequence_length, device);
  }
  return batch;
}

}  // namespace fsdp
