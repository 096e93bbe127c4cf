// Compares the losses of two runs, whatever lists they are in.
#include "runner/commands/two_runs.h"

#include <algorithm>

#include "runner/answers/facts.h"

namespace fsdp {
namespace {

// Returns the run's row, named by its number, with its losses. nullopt: it has not finished.
std::optional<ComparisonRow> finished_row(const Store& store, const RunRecord& run) {
  std::vector<ComparisonRow> rows = store.comparison(run.experiment, Listed::kEver);
  const auto found = std::ranges::find(rows, run.id, &ComparisonRow::run);
  if (found == rows.end() || !is_finished(&*found)) return std::nullopt;
  found->series = found->point = std::to_string(run.id);
  found->losses = store.losses(run.id, run.attempt);
  return *found;
}

}  // namespace

LossesOfTwo::LossesOfTwo(const Store& store, const RunRecord& one, const RunRecord& other) {
  for (const RunRecord* run : {&one, &other}) {
    if (std::optional<ComparisonRow> row = finished_row(store, *run)) {
      runs_.push_back(std::move(*row));
    }
  }
  if (runs_.size() < 2) return;
  series_ = series_of(runs_);
  rows_ = {&series_.front(), &series_.back()};
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
