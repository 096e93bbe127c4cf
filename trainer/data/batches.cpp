#include "trainer/data/batches.h"

namespace fsdp {

Batch load_rows(DataSet& data_set, const std::vector<int64_t>& rows, at::Device device) {
  const int64_t T = data_set.sequence_length();
  const auto options = at::dtype(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor input_ids_BT = at::empty({std::ssize(rows), T}, options);
  const at::Tensor labels_BT = at::empty({std::ssize(rows), T}, options);
  for (int64_t b = 0; b < std::ssize(rows); ++b) {
    data_set.read_row(rows[b], input_ids_BT.data_ptr<int64_t>() + b * T,
                      labels_BT.data_ptr<int64_t>() + b * T);
  }
  return {.input_ids_BT = input_ids_BT.to(device, /*non_blocking=*/true),
          .labels_BT = labels_BT.to(device, /*non_blocking=*/true)};
}

StepBatches load_step(DataSet& data_set, Sampler& sampler, int64_t step, int64_t rank,
                      const RunSpec& spec, at::Device device) {
  StepBatches batches;
  for (const int64_t row : sampler.rows_of_step(step)) {
    batches.label_count += data_set.label_count(row);
  }
  const auto micro_batches =
      sampler.rank_rows(step, rank, spec.strategy.ranks, spec.batch.size_per_rank,
                        spec.batch.gradient_accumulation_steps.value());
  for (const std::vector<int64_t>& rows : micro_batches) {
    batches.micro_batches.push_back(load_rows(data_set, rows, device));
    batches.micro_batches.back().loss_scale = 1.0 / static_cast<double>(batches.label_count);
  }
  return batches;
}

}  // namespace fsdp
