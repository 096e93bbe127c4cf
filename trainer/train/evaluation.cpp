// Evaluates the validation set on all ranks. Every rank does as many batches.
#include "trainer/train/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/backend/step_clock.h"
#include "trainer/data/batches.h"
#include "trainer/memory/memory_label.h"

namespace fsdp {

Evaluation::Evaluation(const RunSpec& spec, DataSet* set, ProcessGroup& world, at::Device device)
    : spec_(spec.evaluation),
      size_per_rank_(spec.evaluation.size_per_rank.value_or(spec.batch.size_per_rank)),
      set_(set),
      world_(world),
      device_(device) {}

bool Evaluation::is_due(int64_t step, int64_t steps_per_epoch) const {
  return (spec_.every_steps && step % *spec_.every_steps == 0) ||
         (spec_.each_epoch && step % steps_per_epoch == 0);
}

// Every rank takes part in every batch. If its rows have run out, it uses a batch without labels.
Batch Evaluation::load_batch(int64_t batch, int64_t& label_count) {
  const MemoryScope scope(MemoryUse::kBatch);
  const int64_t first = (batch * world_.size() + world_.rank()) * size_per_rank_;
  std::vector<int64_t> rows;
  for (int64_t row = first; row < std::min(first + size_per_rank_, set_->rows()); ++row) {
    rows.push_back(row);
    label_count += set_->size_of(row).labels;
  }
  constexpr std::array<int64_t, 1> kFirst{0};
  if (!rows.empty()) return set_->load(rows, device_);
  // A real row: every module needs tokens, and collectives need every rank.
  Batch empty = set_->load(kFirst, device_);
  empty.labels_BT.fill_(kNoLabel);
  return empty;
}

EvaluationDone Evaluation::run(TrainingStep& training, int64_t step) {
  const StepClock clock(device_);
  const auto begin = clock.mark();
  const int64_t rows_per_batch = world_.size() * size_per_rank_;
  const int64_t all_batches = (set_->rows() + rows_per_batch - 1) / rows_per_batch;
  const int64_t batches = std::min(spec_.batches.value_or(all_batches), all_batches);
  at::Tensor sums = at::zeros({3}, at::TensorOptions(at::kDouble).device(device_));
  int64_t label_count = 0;
  for (int64_t b = 0; b < batches; ++b) {
    sums.narrow(0, 0, 2).add_(training.evaluate(load_batch(b, label_count)));
  }
  sums[2] = static_cast<double>(label_count);
  world_.all_reduce(sums).wait();
  const at::Tensor host_sums = sums.cpu();
  const auto* values = host_sums.const_data_ptr<double>();

  EvaluationDone done;
  done.step = step;
  done.label_count = static_cast<int64_t>(values[2]);
  if (done.label_count > 0) {
    done.token_accuracy = values[1] / values[2];
    const double loss = values[0] / values[2];
    done.non_finite = !std::isfinite(loss);
    if (!done.non_finite) done.loss = loss;
  }
  done.evaluation_time_ms = clock.mark()->milliseconds_since(*begin);
  return done;
}

}  // namespace fsdp
