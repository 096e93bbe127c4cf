#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/store/summary.h"
#include "trainer/contract/event.h"

namespace fsdp {

// What the figures of an attempt are computed from, added event by event; of each step of each rank
// it keeps no more than a number. Pure.
class AttemptFigures {
 public:
  struct Attempt {
    int64_t ranks = 0;
    int64_t warmup_steps_excluded = 0;
    int64_t gradient_accumulation_steps = 1;
    int64_t started_unix_ms = 0;
  };

  explicit AttemptFigures(const Attempt& attempt);

  // Each rank's events in their order, ranks in any. What says nothing about figures is ignored; so
  // is a step with a number that the rank has reported before. Throws std::out_of_range when there
  // is no such rank.
  void add(int64_t rank, int64_t time_unix_ms, const decltype(Event::body)& body);

  // `ended_unix_ms`: as the runner saw the attempt's end, absent while it runs.
  AttemptSummary summary(std::optional<int64_t> ended_unix_ms) const;
  RankSummary rank_summary(int64_t rank) const;
  int64_t ranks() const { return std::ssize(ranks_); }

 private:
  struct Rank {
    std::string host;
    std::string gpu;  // as device samples name it; empty: none
    int64_t last_step = 0;
    std::vector<double> step_times_ms;
    RankSummary largest;                   // its memory figures
    std::optional<int64_t> ended_unix_ms;  // of its last event; absent: still running or killed
  };
  // A step over the ranks that have done it.
  struct Step {
    int64_t step = 0;
    double step_time_ms = 0;                        // of the slowest rank
    std::optional<double> communication_time_ms{};  // of the same
    int64_t tokens = 0;
    int64_t rank_count = 0;
  };
  // Rank 0's steps.
  struct Losses {
    std::optional<double> first, last;
    int64_t skipped_steps = 0;
    int64_t non_finite_steps = 0;
    double start_up_time_ms = 0;
  };
  // One device of one host; its samples come in order of time.
  struct Device {
    double utilization_percent_sum = 0;
    int64_t utilization_count = 0;
    std::optional<double> energy_joules;
    std::optional<double> last_power_watts;
    int64_t last_power_unix_ms = 0;
  };

  void add_step(int64_t rank, int64_t time_unix_ms, const StepDone& done);
  void add_sample(int64_t time_unix_ms, const DeviceSample& sample);
  void add_evaluation(const EvaluationDone& evaluation);
  Step& step_numbered(int64_t step);
  void summarise_steps(AttemptSummary& summary) const;
  void summarise_ranks(AttemptSummary& summary, std::optional<int64_t> ended_unix_ms) const;
  void summarise_devices(AttemptSummary& summary) const;

  Attempt attempt_;
  std::vector<Rank> ranks_;
  std::vector<Step> steps_;  // in the order of their numbers
  std::optional<Losses> losses_;
  AttemptSummary evaluations_;  // its validation figures
  std::vector<double> checkpoint_times_ms_;
  std::map<std::pair<std::string, std::string>, Device> devices_;  // by host and name
};

}  // namespace fsdp
