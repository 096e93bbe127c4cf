#include <algorithm>

#include "runner/store/store_contents.h"

namespace fsdp {
namespace {

// Returns the attempt before `newest` that came nearest to `step`, the newest one among equals; 0:
// none. An attempt that stopped before the step did not write its checkpoint, even if it is newer.
int attempt_that_reached(int64_t step, Database& database, int64_t run_id, int64_t newest) {
  Statement earlier(database,
                    "select attempt, coalesce((select max(step) from steps s where s.run = a.run "
                    "and s.attempt = a.attempt and s.rank = 0), 0) "
                    "from attempts a where run = ? and attempt < ? order by attempt desc");
  int nearest = 0;
  int64_t reached = 0;
  for (const auto& [attempt, last_step] : earlier.rows<int, int64_t>(run_id, newest)) {
    if (reached >= step || last_step <= reached) continue;
    nearest = attempt;
    reached = last_step;
  }
  return nearest;
}

std::vector<Stretch> stretches_of(Database& database, int64_t run_id, int attempt) {
  Statement resumed_from_step(database,
                              "select resumed_from_step from ranks where run = ? and attempt = ? "
                              "and started_unix_ms is not null order by rank");
  std::vector<Stretch> found;
  for (Stretch stretch{.attempt = attempt}; stretch.attempt > 0;) {
    found.push_back(stretch);
    const auto begin = resumed_from_step.value<int64_t>(run_id, stretch.attempt);
    const int64_t step = std::min(stretch.last_step, begin.value_or(stretch.last_step));
    // The attempt before wrote the checkpoint that this one resumed from.
    stretch = {attempt_that_reached(step, database, run_id, stretch.attempt), step};
  }
  std::ranges::reverse(found);
  return found;
}

}  // namespace

std::vector<Stretch> Store::stretches(int64_t run_id, int attempt) const {
  return stretches_of(contents_->database, run_id, attempt);
}

std::vector<StepLoss> Store::losses(int64_t run_id, int attempt) const {
  Statement of_stretch(contents_->database,
                       select<StepLoss>("steps where run = ? and attempt = ? and rank = 0 and "
                                        "step <= ? order by step"));
  std::vector<StepLoss> found;
  for (const Stretch& stretch : stretches_of(contents_->database, run_id, attempt)) {
    std::ranges::move(of_stretch.rows<StepLoss>(run_id, stretch.attempt, stretch.last_step),
                      std::back_inserter(found));
  }
  return found;
}

void Store::Contents::add_losses_before(AttemptSummary& summary, int64_t run_id, int attempt) {
  const auto goes_on = Statement(database,
                                 "select 1 from ranks where run = ? and attempt = ? and "
                                 "resumed_from_step > 0 limit 1")
                           .value<int64_t>(run_id, attempt);
  if (!goes_on) return;  // an attempt without a first step has no losses
  std::vector<Stretch> course = stretches_of(database, run_id, attempt);
  course.pop_back();
  if (course.empty()) return;
  summary.loss_first =
      Statement(database,
                "select loss from steps where run = ? and attempt = ? and rank = 0 "
                "order by step limit 1")
          .value<std::optional<double>>(run_id, course.front().attempt)
          .value_or(summary.loss_first);
  Statement evaluations(database,
                        "select loss from evaluations where run = ? and attempt = ? and rank = 0 "
                        "and step <= ? and token_accuracy is not null order by sequence desc");
  std::ranges::reverse(course);
  for (const Stretch& stretch : course) {
    for (const auto& loss :
         evaluations.rows<std::optional<double>>(run_id, stretch.attempt, stretch.last_step)) {
      summary.validation_loss_first = loss;
      auto& best = summary.validation_loss_best;
      if (loss) best = std::min(*loss, best.value_or(*loss));
    }
  }
}

}  // namespace fsdp
