// Compares the losses of two runs, whatever lists they are in.
#include "runner/commands/two_runs.h"

#include "runner/answers/facts.h"
#include "runner/commands/find_run.h"

namespace fsdp {
namespace {

// Returns the run's row, named by its number, with its losses.
ComparisonRow row_with_losses(const Store& store, const RunRecord& run) {
  ComparisonRow row = row_of(store, run);
  row.series = row.point = std::to_string(run.id);
  row.losses = store.losses(run.id, run.attempt);
  return row;
}

}  // namespace

LossesOfTwo::LossesOfTwo(const Store& store, const RunRecord& one, const RunRecord& other)
    : runs_{row_with_losses(store, one), row_with_losses(store, other)} {
  if (!is_finished(&runs_[0]) || !is_finished(&runs_[1])) return;
  series_ = series_of(runs_);
  rows_ = {&series_.front(), &series_.back()};
}

std::string LossesOfTwo::why_not_compared() const {
  if (runs_[0].loss_digest == runs_[1].loss_digest) return "";
  return fsdp::why_not_compared(runs_[0], runs_[1]);
}

std::string LossesOfTwo::answer() const {
  return rows_.empty() ? "" : loss_answer(loss_facts(rows_), rows_);
}

std::optional<int64_t> LossesOfTwo::parting_step() const {
  for (const LossAgreement& agreement : loss_agreements(rows_)) {
    if (agreement.parting) return agreement.parting->step;
  }
  return std::nullopt;
}

}  // namespace fsdp
