// Loads a rank's part of a step. Counts are of all ranks, so they need no communication.
#include "trainer/data/batches.h"

#include <span>

#include "trainer/model/splitmix64.h"

namespace fsdp {

BatchShape shape_of(const Batch& batch) {
  BatchShape shape{.rows = batch.input_ids_BT.size(0), .tokens = batch.input_ids_BT.size(1)};
  if (batch.decoder_input_ids_BT.defined()) {
    shape.decoder_tokens = batch.decoder_input_ids_BT.size(1);
  }
  if (!batch.documents) return shape;
  const std::vector<int64_t>& starts = batch.documents->starts;
  for (size_t i = 1; i < starts.size(); ++i) {
    shape.document_tokens.push_back(starts[i] - starts[i - 1]);
  }
  return shape;
}

StepBatches load_step(DataSet& data_set, Sampler& sampler, int64_t step, int64_t rank,
                      const RunSpec& spec, at::Device device) {
  StepBatches batches;
  const std::vector<int64_t> all_rows = sampler.rows_of_step(step);
  for (const int64_t row : all_rows) {
    const RowSize size = data_set.size_of(row);
    batches.unpadded_tokens += size.tokens;
    batches.label_count += size.labels;
  }
  // The step's rows, cut into micro-batches one after another, are the micro-batches of all ranks.
  const int64_t size_per_rank = spec.batch.size_per_rank;
  for (int64_t first = 0; first < std::ssize(all_rows); first += size_per_rank) {
    batches.tokens += data_set.batch_tokens(std::span(all_rows).subspan(first, size_per_rank));
  }
  // Counts the labels of the global batch. So the sum over ranks is the mean, even if ranks have
  // different numbers of labels.
  const double loss_scale =
      batches.label_count > 0 ? 1.0 / static_cast<double>(batches.label_count) : 0.0;
  const auto micro_batches =
      sampler.rank_rows(step, rank, spec.strategy.ranks, spec.batch.size_per_rank,
                        spec.batch.gradient_accumulation_steps.value());
  // Dropout follows from this number, so it is the same with any number of ranks.
  uint64_t number = rank * std::ssize(micro_batches);  // counted in the step, over all ranks
  const uint64_t seed_of_step = splitmix64(spec.train.seed, step);
  for (const std::vector<int64_t>& rows : micro_batches) {
    Batch batch = data_set.load(rows, device);
    batch.loss_scale = loss_scale;
    batch.seed = splitmix64(seed_of_step, number++);
    batches.micro_batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace fsdp
