// Keeps the state of a sweep's runs from their events, and says what a run waits for.
#include "runner/progress/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

double elapsed_s(const RunProgress& run, ProgressClock::time_point now) {
  if (run.has_ended()) return run.elapsed_s;
  return std::chrono::duration<double>(now - run.started.value_or(now)).count();
}

// The time that runs take, learned from finished and running ones.
class Experience {
 public:
  Experience(std::span<const RunProgress> runs, ProgressClock::time_point now) {
    for (const RunProgress& run : runs) {
      const bool finished = run.status == RunStatus::kFinished;
      const std::optional<double> left = finished ? 0.0 : seconds_left(run);
      if ((!finished && run.status != RunStatus::kRunning) || !left) continue;
      const double whole_s = elapsed_s(run, now) + *left;
      ++runs_;
      seconds_ += whole_s;
      if (run.steps > run.attempt.resumed_from_step) {
        tokens_ += tokens_of(run, run.attempt.resumed_from_step);
        seconds_of_tokens_ += whole_s;
      }
    }
  }

  std::optional<double> of(const RunProgress& planned) const {
    if (planned.steps > 0 && tokens_ > 0) {
      return seconds_of_tokens_ / tokens_ * tokens_of(planned, 0);
    }
    if (runs_ > 0) return seconds_ / runs_;
    return std::nullopt;
  }

 private:
  static double tokens_of(const RunProgress& run, int64_t steps_before) {
    return (static_cast<double>(run.steps) - static_cast<double>(steps_before)) *
           run.tokens_of_step;
  }

  double runs_ = 0;
  double seconds_ = 0;
  double tokens_ = 0;  // of runs whose steps are known
  double seconds_of_tokens_ = 0;
};

std::string evaluation_text(const EvaluationDone& evaluation) {
  if (!evaluation.token_accuracy) return "unknown: no row of the validation set has labels";
  return fmt::format("{}  accuracy {} %", loss_text(evaluation.loss),
                     decimals(100 * *evaluation.token_accuracy, 1));
}

constexpr double kLongWaitSeconds = 30;
// A wait is long after this many times the recent step time. It also has to last kLongStepSeconds
// between steps, and kLongWaitSeconds elsewhere.
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

// "rank 2 of 4 has", "ranks 1, 3 of 4 have"
std::string ranks_have(const std::vector<size_t>& ranks, const RunProgress& run) {
  return fmt::format("{} {} of {} {}", ranks.size() == 1 ? "rank" : "ranks", joined_names(ranks),
                     run.ranks, ranks.size() == 1 ? "has" : "have");
}

bool is_due(int64_t step, int64_t every, int64_t done_step) {
  return every > 0 && step > 0 && step % every == 0 && done_step < step;
}

std::pair<WaitsFor, std::string> before_start(const RunProgress& run) {
  const auto all = static_cast<size_t>(run.ranks);
  const std::vector<size_t> not_there = ranks_before(run, RankStage::kBegun);
  if (not_there.size() == all) return {WaitsFor::kRanks, "no rank has begun"};
  if (!not_there.empty()) {
    return {WaitsFor::kRanks, fmt::format("rendezvous: {} not begun", ranks_have(not_there, run))};
  }
  const std::vector<size_t> not_started = ranks_before(run, RankStage::kStarted);
  if (not_started.size() < all) {
    return {WaitsFor::kLoading, fmt::format("{} not loaded", ranks_have(not_started, run))};
  }
  if (all == 1) return {WaitsFor::kLoading, "loading"};
  return {WaitsFor::kLoading, fmt::format("rendezvous of all {} ranks, or loading", all)};
}

std::pair<WaitsFor, std::string> when_all_have_started(const RunProgress& run) {
  if (!run.has_stepped()) return {WaitsFor::kFirstStep, "in the first step"};
  const std::vector<size_t> behind =
      ranks_where(run, [&](const RankProgress& rank) { return rank.step < run.attempt.step; });
  if (!behind.empty()) {
    return {WaitsFor::kStep,
            fmt::format("{} not done step {}", ranks_have(behind, run), run.attempt.step)};
  }
  if (is_due(run.attempt.step, run.evaluates_every, run.attempt.evaluated_step)) {
    return {WaitsFor::kEvaluation, fmt::format("evaluation after step {}", run.attempt.step)};
  }
  if (is_due(run.attempt.step, run.checkpoints_every, run.attempt.saved_step)) {
    return {WaitsFor::kCheckpoint, fmt::format("checkpoint after step {}", run.attempt.step)};
  }
  if (run.steps > 0 && run.attempt.step >= run.steps) {
    return {WaitsFor::kEnd,
            "all steps are done; waits for the end of the processes, or of the job"};
  }
  return {WaitsFor::kStep, fmt::format("after step {}; a step took {} ms", run.attempt.step,
                                       three_digits(run.attempt.step_time_ms))};
}

double long_wait_seconds(const RunProgress& run, WaitsFor what) {
  const double steps_seconds = kLongStepTimes * run.attempt.step_time_ms.value_or(0) / 1000;
  return std::max(steps_seconds, what == WaitsFor::kStep ? kLongStepSeconds : kLongWaitSeconds);
}

double seconds_between(ProgressClock::time_point from, ProgressClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void RunProgress::set_status(RunStatus next, ProgressClock::time_point now) {
  status = next;
  rank_progress.clear();
  attempt = {};
  news = now;
}

void RunProgress::take_outline(const RunProgress& outline) {
  ranks = outline.ranks;
  steps = outline.steps;
  tokens_of_step = outline.tokens_of_step;
  evaluates_every = outline.evaluates_every;
  checkpoints_every = outline.checkpoints_every;
}

void RunProgress::take(const AttemptReports& reports, const std::vector<bool>& begun,
                       ProgressClock::time_point now) {
  std::vector<RankProgress> now_at;
  for (const RankState& rank : reports.ranks()) {
    const bool has_started = rank.started_unix_ms || rank.steps > 0;
    const bool has_begun = begun.at(static_cast<size_t>(rank.rank));
    now_at.push_back({has_started ? RankStage::kStarted
                      : has_begun ? RankStage::kBegun
                                  : RankStage::kNotThere,
                      rank.last_step});
  }
  const AttemptProgress& next = reports.progress();
  const auto steps_beside = [](const AttemptProgress& of) {
    return std::pair(of.evaluated_step, of.saved_step);
  };
  if (now_at != rank_progress || steps_beside(next) != steps_beside(attempt)) news = now;
  rank_progress = std::move(now_at);
  if (next.steps_planned > 0) steps = next.steps_planned;
  attempt = next;
  if (!started) return;
  // A runner that follows may come late. A damaged file may hold any number.
  constexpr int64_t kMostMs = int64_t{1000} * 365 * 86400 * 1000;
  started = std::min(*started, now - std::chrono::milliseconds(std::min(next.elapsed_ms, kMostMs)));
}

std::optional<double> seconds_left(const RunProgress& run) {
  if (run.has_ended() || !run.attempt.step_time_ms || run.steps == 0) return std::nullopt;
  const double steps = static_cast<double>(run.steps) - static_cast<double>(run.attempt.step);
  return std::max(steps, 0.0) * *run.attempt.step_time_ms / 1000;
}

std::optional<double> seconds_left(std::span<const RunProgress> runs,
                                   ProgressClock::time_point now) {
  const Experience experience(runs, now);
  double sum = 0;
  double longest = 0;
  int64_t side_by_side = 0;
  for (const RunProgress& run : runs) {
    if (run.has_ended()) continue;
    std::optional<double> left = seconds_left(run);
    if (!left) {
      const std::optional<double> whole = experience.of(run);
      if (!whole) return std::nullopt;
      const bool runs_now = run.status == RunStatus::kRunning;
      left = std::max(0.0, *whole - (runs_now ? elapsed_s(run, now) : 0.0));
    }
    side_by_side += run.status == RunStatus::kRunning ? 1 : 0;
    sum += *left;
    longest = std::max(longest, *left);
  }
  // Runs side by side share the rest, but no sweep ends before its longest run.
  return std::max(longest, sum / static_cast<double>(std::max<int64_t>(side_by_side, 1)));
}

std::string loss_text(std::optional<double> loss) {
  return loss ? decimals(*loss, 4) : "not finite";
}

std::string duration_text(double seconds) {
  constexpr double kLongest = 1e12;
  if (seconds < 0) return '-' + duration_text(-seconds);
  if (!(seconds < kLongest)) return decimals(seconds, 0) + 's';
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
}

std::string steps_text(const RunProgress& run) {
  return run.steps == 0 ? std::to_string(run.attempt.step)
                        : fmt::format("{}/{}", run.attempt.step, run.steps);
}

std::string figures_text(const RunProgress& run) {
  if (run.attempt.step == 0) return "no step";
  std::string text = steps_text(run) + "  loss " + loss_text(run.attempt.loss);
  if (run.attempt.step_time_ms > 0.0)
    text += fmt::format("  {} ms a step", three_digits(run.attempt.step_time_ms));
  return text + "  " + gibibytes_text(run.attempt.memory_allocated_bytes_max);
}

std::string end_line(const RunProgress& run) {
  std::string line = fmt::format("{}: {}", run.point, name_of(run.status));
  if (!run.reason.empty()) line += ": " + run.reason;
  if (!run.log.empty()) line += " (log: " + run.log.string() + ")";
  if (!run.started) return line;
  return fmt::format("{}, {}, {}", line, figures_text(run), duration_text(run.elapsed_s));
}

std::vector<Remark> remarks(const std::string& point, std::span<const Event> events) {
  std::vector<Remark> found;
  for (const Event& event : events) {
    if (const auto* started = std::get_if<RunStarted>(&event.body)) {
      const int64_t step = started->resumed_from_step;
      if (step > 0) found.push_back({fmt::format("{}: goes on from step {}", point, step)});
      if (!started->warning.empty()) {
        found.push_back({point + ": warning: " + started->warning, /*is_warning=*/true});
      }
    } else if (const auto* evaluation = std::get_if<EvaluationDone>(&event.body)) {
      found.push_back({fmt::format("{}: step {}  validation loss {}", point, evaluation->step,
                                   evaluation_text(*evaluation))});
    } else if (const auto* checkpoint = std::get_if<CheckpointDone>(&event.body)) {
      found.push_back({fmt::format("{}: step {}  checkpoint {}  {}  {} s", point, checkpoint->step,
                                   checkpoint->path, gibibytes_text(checkpoint->size_bytes),
                                   decimals(checkpoint->write_time_ms / 1000, 1))});
    }
  }
  return found;
}

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
