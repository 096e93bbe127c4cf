#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/record/event.h"
#include "contract/spec/training_spec.h"
#include "runner/store/figures.h"

namespace fsdp {

// Computes the figures of an attempt, event by event. Keeps one number for each step of each rank,
// and one Step for each step. Pure.
class AttemptFigures {
 public:
  struct Attempt {
    int64_t ranks = 0;
    int64_t warmup_steps_excluded = 0;
    int64_t gradient_accumulation_steps = 1;
    std::optional<Dtype> compute{};  // number type of matrix products; nullopt: unknown
  };

  explicit AttemptFigures(const Attempt& attempt);

  // Adds an event. Each rank's events come in their order, ranks in any order. Ignores events that
  // do not affect figures, and a step number that the rank has reported before. The time of
  // run_started is the start of the rank's process. Times of different ranks are never compared.
  // Throws std::out_of_range if there is no such rank.
  void add(int64_t rank, int64_t time_unix_ms, const decltype(Event::body)& body);
  // Notes that the rank's last event was written at this time.
  void add_last_time(int64_t rank, int64_t time_unix_ms);

  // `has_ended`: the attempt is over, even if some ranks have not said so.
  AttemptSummary summary(bool has_ended) const;
  RankSummary rank_summary(int64_t rank) const;
  int64_t ranks() const { return std::ssize(ranks_); }
  // Returns, in one line, why a rank that says it finished has not done or reported all its steps;
  // empty: it has.
  std::string what_is_missing(int64_t rank, const RunFinished& finished) const;

 private:
  struct Rank {
    std::string host;
    std::string gpu;  // as device samples name it; empty: none
    std::optional<double> peak_tflops;
    int64_t last_step = 0;
    int64_t step_count = 0;
    std::vector<double> step_times_ms;     // without those of suspended steps
    RankSummary largest;                   // only memory figures: the largest of any step
    std::optional<int64_t> steps_planned;  // nullopt: it has not reported its start
    int64_t resumed_from_step = 0;
    std::optional<int64_t> started_unix_ms;
    std::optional<CpuUse> cpu_use;
    int64_t last_unix_ms = 0;  // of its last event
    bool has_ended = false;    // it has reported its end
  };
  // One step, over all ranks that have reported it so far.
  struct Step {
    int64_t step = 0;
    double step_time_ms = 0;                        // of the slowest rank
    std::optional<double> communication_time_ms{};  // of the slowest rank
    int64_t tokens = 0;
    int64_t unpadded_tokens = 0;
    int64_t label_count = 0;
    int64_t rank_count = 0;
    bool is_suspended = false;  // on any rank
    // Sums over all ranks; nullopt if a rank does not report them.
    std::optional<double> model_flops{0};
    std::optional<double> hardware_flops{0};
  };
  // One device of one host. Its samples come in order of time.
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
  void summarise_ranks(AttemptSummary& summary, bool has_ended) const;
  void summarise_devices(AttemptSummary& summary) const;
  void summarise_cpu_use(AttemptSummary& summary) const;

  Attempt attempt_;
  std::vector<Rank> ranks_;
  std::vector<Step> steps_;   // in the order of their numbers
  AttemptSummary of_rank_0_;  // losses and start-up time, up to its last event
  std::vector<double> checkpoint_times_ms_;
  std::map<std::pair<std::string, std::string>, Device> devices_;  // by host and name
};

}  // namespace fsdp
