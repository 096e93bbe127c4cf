#include "trainer/data/batches.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace fsdp {
namespace {

// How wide these rows are together.
int64_t width_of(DataSet& data_set, std::span<const int64_t> rows) {
  if (data_set.fill() != RowFill::kPadToLongest) return data_set.sequence_length();
  int64_t width = 1;
  for (const int64_t row : rows) width = std::max(width, data_set.size_of(row).tokens);
  return width;
}

// What fills a row up is a document too.
DocumentsPtr documents_of(const DataSet& data_set, const std::vector<int64_t>& rows,
                          at::Device device) {
  std::vector<int64_t> lengths;
  for (const int64_t row : rows) {
    const std::vector<int64_t> of_row = data_set.document_lengths(row);
    lengths.insert(lengths.end(), of_row.begin(), of_row.end());
    const int64_t free =
        data_set.sequence_length() - std::accumulate(of_row.begin(), of_row.end(), int64_t{0});
    if (free > 0) lengths.push_back(free);
  }
  return make_documents(lengths, data_set.sequence_length(), device);
}

}  // namespace

Batch load_rows(DataSet& data_set, const std::vector<int64_t>& rows, at::Device device) {
  const int64_t T = width_of(data_set, rows);
  const auto options = at::dtype(at::kLong).pinned_memory(device.is_cuda());
  const at::Tensor input_ids_BT = at::empty({std::ssize(rows), T}, options);
  const at::Tensor labels_BT = at::empty({std::ssize(rows), T}, options);
  for (int64_t b = 0; b < std::ssize(rows); ++b) {
    data_set.read_row(rows[b], T, input_ids_BT.data_ptr<int64_t>() + b * T,
                      labels_BT.data_ptr<int64_t>() + b * T);
  }
  Batch batch{.input_ids_BT = input_ids_BT.to(device, /*non_blocking=*/true),
              .labels_BT = labels_BT.to(device, /*non_blocking=*/true)};
  if (data_set.fill() == RowFill::kPack) batch.documents = documents_of(data_set, rows, device);
  return batch;
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
  // The ranks' micro-batches follow each other in the step's rows.
  const int64_t size_per_rank = spec.batch.size_per_rank;
  for (int64_t first = 0; first < std::ssize(all_rows); first += size_per_rank) {
    batches.tokens +=
        size_per_rank * width_of(data_set, std::span(all_rows).subspan(first, size_per_rank));
  }
  const double loss_scale =
      batches.label_count > 0 ? 1.0 / static_cast<double>(batches.label_count) : 0.0;
  const auto micro_batches =
      sampler.rank_rows(step, rank, spec.strategy.ranks, spec.batch.size_per_rank,
                        spec.batch.gradient_accumulation_steps.value());
  for (const std::vector<int64_t>& rows : micro_batches) {
    batches.micro_batches.push_back(load_rows(data_set, rows, device));
    batches.micro_batches.back().loss_scale = loss_scale;
  }
  return batches;
}

}  // namespace fsdp
