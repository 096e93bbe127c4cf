#include "runner/progress/waiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

constexpr double kLongWaitSeconds = 30;
// A wait is long after this many times the recent step time, but not before these minimums.
// kLongStepSeconds is the minimum between steps, kLongWaitSeconds that of other waits.
constexpr double kLongStepTimes = 10;
constexpr double kLongStepSeconds = 10;

template <typename Lacks>
std::vector<size_t> ranks_where(const RunProgress& run, Lacks lacks) {
  std::vector<size_t> ranks;
  for (size_t rank = 0; rank < static_cast<size_t>(run.ranks); ++rank) {
    if (lacks(run.of_rank(rank))) ranks.push_back(rank);
  }
  return ranks;
}

// Returns the ranks that have not reached `stage`.
std::vector<size_t> ranks_before(const RunProgress& run, RankStage stage) {
  return ranks_where(run, [&](const RankProgress& rank) { return rank.stage < stage; });
}

// "rank 2 has", "ranks 1, 3 have"
std::string ranks_have(const std::vector<size_t>& ranks) {
  return fmt::format("{} {} {}", ranks.size() == 1 ? "rank" : "ranks", joined_names(ranks),
                     ranks.size() == 1 ? "has" : "have");
}

bool is_due(int64_t step, int64_t every, int64_t done_step) {
  return every > 0 && step > 0 && step % every == 0 && done_step < step;
}

std::pair<WaitsFor, std::string> before_start(const RunProgress& run) {
  const auto all = static_cast<size_t>(run.ranks);
  const std::vector<size_t> not_there = ranks_before(run, RankStage::kBegun);
  if (not_there.size() == all) return {WaitsFor::kRanks, "no rank has begun"};
  if (!not_there.empty()) {
    return {WaitsFor::kRanks,
            fmt::format("rendezvous: {} not begun, of {}", ranks_have(not_there), all)};
  }
  const std::vector<size_t> not_started = ranks_before(run, RankStage::kStarted);
  if (not_started.size() < all) {
    return {WaitsFor::kLoading, fmt::format("{} not loaded, of {}", ranks_have(not_started), all)};
  }
  if (all == 1) return {WaitsFor::kLoading, "loading"};
  return {WaitsFor::kLoading, fmt::format("rendezvous of all {} ranks, or loading", all)};
}

std::pair<WaitsFor, std::string> when_all_have_started(const RunProgress& run) {
  if (!run.has_stepped()) return {WaitsFor::kFirstStep, "in the first step"};
  const std::vector<size_t> behind =
      ranks_where(run, [&](const RankProgress& rank) { return rank.step < run.step; });
  if (!behind.empty()) {
    return {WaitsFor::kStep,
            fmt::format("{} not done step {}, of {}", ranks_have(behind), run.step, run.ranks)};
  }
  if (is_due(run.step, run.evaluates_every, run.evaluated_step)) {
    return {WaitsFor::kEvaluation, fmt::format("evaluation after step {}", run.step)};
  }
  if (is_due(run.step, run.checkpoints_every, run.saved_step)) {
    return {WaitsFor::kCheckpoint, fmt::format("checkpoint after step {}", run.step)};
  }
  if (run.steps > 0 && run.step >= run.steps) {
    return {WaitsFor::kEnd, "all steps are done, the run has not ended"};
  }
  return {WaitsFor::kStep, fmt::format("after step {}, where one took {} ms", run.step,
                                       three_digits(run.step_time_ms))};
}

double long_wait_seconds(const RunProgress& run, WaitsFor what) {
  const double steps_seconds = kLongStepTimes * run.step_time_ms.value_or(0) / 1000;
  return std::max(steps_seconds, what == WaitsFor::kStep ? kLongStepSeconds : kLongWaitSeconds);
}

double seconds_between(ProgressClock::time_point from, ProgressClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string_view start_text(const RunProgress& run) {
  const auto all = static_cast<size_t>(run.ranks);
  const size_t not_there = ranks_before(run, RankStage::kBegun).size();
  const size_t not_started = ranks_before(run, RankStage::kStarted).size();
  if (not_started == 0) return "first step";
  if (not_started < all || (not_there == 0 && all == 1)) return "loading";
  return not_there > 0 && not_there < all ? "rendezvous" : "starting";
}

std::optional<Waiting> waiting(const RunProgress& run, ProgressClock::time_point now) {
  Waiting waiting{.since = run.news.value_or(now)};
  if (run.status == RunStatus::kQueued) {
    waiting.what = WaitsFor::kQueue;
    waiting.text = "in the queue";
    if (!run.job_reason.empty()) waiting.text += fmt::format(" ({})", run.job_reason);
  } else if (run.status == RunStatus::kRunning) {
    std::tie(waiting.what, waiting.text) = ranks_before(run, RankStage::kStarted).empty()
                                               ? when_all_have_started(run)
                                               : before_start(run);
  } else {
    return std::nullopt;
  }
  waiting.is_long = seconds_between(waiting.since, now) >= long_wait_seconds(run, waiting.what);
  return waiting;
}

std::string waiting_text(const Waiting& waiting, ProgressClock::time_point now) {
  return fmt::format("{} {}{}", duration_text(seconds_between(waiting.since, now)),
                     waiting.what == WaitsFor::kQueue ? "" : "without a step: ", waiting.text);
}

}  // namespace fsdp
