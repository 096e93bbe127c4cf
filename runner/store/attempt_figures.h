#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/record/event.h"
#include "contract/spec/strategy_spec.h"
#include "runner/store/summary.h"

namespace fsdp {

// What the figures of an attempt are computed from, added event by event; of each step of each rank
// it keeps no more than a number. Pure.
class AttemptFigures {
 public:
  struct Attempt {
    int64_t ranks = 0;
    int64_t warmup_steps_excluded = 0;
    int64_t gradient_accumulation_steps = 1;
    std::optional<Dtype> compute{};  // what products are computed in; absent: not known
  };

  explicit AttemptFigures(const Attempt& attempt);

  // Each rank's events in their order, ranks in any. What says nothing about figures is ignored; so
  // is a step with a number that the rank has reported before. The time of run_started is that of
  // the start of the rank's process; times of different ranks are never compared. Throws
  // std::out_of_range when there is no such rank.
  void add(int64_t rank, int64_t time_unix_ms, const decltype(Event::body)& body);
  // That the rank's last event was written then.
  void add_last_time(int64_t rank, int64_t time_unix_ms);

  // `has_ended`: whether the attempt is over, though some ranks may not have said so.
  AttemptSummary summary(bool has_ended) const;
  RankSummary rank_summary(int64_t rank) const;
  int64_t ranks() const { return std::ssize(ranks_); }
  // Why the rank, which says that it has finished, has not done or not reported all its steps, in
  // one line; empty: it has.
  std::string what_is_missing(int64_t rank, const RunFinished& finished) const;

 private:
  struct Rank {
    std::string host;
    std::string gpu;  // as device samples name it; empty: none
    std::optional<double> peak_tflops;
    int64_t last_step = 0;
    std::vector<double> step_times_ms;
    RankSummary largest;                   // its memory figures
    std::optional<int64_t> steps_planned;  // absent: it has not reported its start
    int64_t resumed_from_step = 0;
    std::optional<int64_t> started_unix_ms;
    std::optional<CpuUse> cpu_use;
    int64_t last_unix_ms = 0;  // of its last event
    bool has_ended = false;    // and said so
  };
  // A step over the ranks that have done it.
  struct Step {
    int64_t step = 0;
    double step_time_ms = 0;                        // of the slowest rank
    std::optional<double> communication_time_ms{};  // of the same
    int64_t tokens = 0;
    int64_t unpadded_tokens = 0;
    int64_t label_count = 0;
    int64_t rank_count = 0;
    // Of all; absent where one does not report them.
    std::optional<double> model_flops{0};
    std::optional<double> hardware_flops{0};
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
  // After summarise_steps.
  void summarise_flops(AttemptSummary& summary) const;
  void summarise_ranks(AttemptSummary& summary, bool has_ended) const;
  void summarise_devices(AttemptSummary& summary) const;
  void summarise_cpu_use(AttemptSummary& summary) const;

  Attempt attempt_;
  std::vector<Rank> ranks_;
  std::vector<Step> steps_;   // in the order of their numbers
  AttemptSummary of_rank_0_;  // its losses and start-up time, as of its last event
  std::vector<double> checkpoint_times_ms_;
  std::map<std::pair<std::string, std::string>, Device> devices_;  // by host and name
};

}  // namespace fsdp
