#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/text/fields.h"
#include "contract/record/event.h"
#include "contract/spec/training_spec.h"
#include "runner/store/figures.h"

namespace fsdp {

using std::string_view_literals::operator""sv;

// The kind of a rank's last event; none: it did not report its end.
enum class RankEndKind { kNone, kFinished, kFailed, kInterrupted };
constexpr auto enum_names(RankEndKind) {
  return std::array{"none"sv, "run_finished"sv, "run_failed"sv, "run_interrupted"sv};
}

// The state of one rank, as far as it was reported.
struct RankState {
  int rank = 0;
  std::optional<int64_t> started_unix_ms;  // of its process; nullopt: it has not reported its start
  RankEndKind kind = RankEndKind::kNone;
  int64_t exit_code = 0;                      // of run_failed
  std::string reason;                         // of run_failed; of run_finished: missing steps
  int64_t last_step = 0;                      // 0: none
  int64_t steps = 0;                          // that it reported
  std::optional<int64_t> last_event_unix_ms;  // nullopt: the rank wrote no event
};

// How far an attempt is.
struct AttemptProgress {
  int64_t steps_planned = 0;               // of the whole run; 0: no rank has reported its start
  int64_t resumed_from_step = 0;           // of the checkpoint
  int64_t step = 0;                        // the last one rank 0 did; 0: none yet
  std::optional<double> loss{};            // nullopt: none yet, or not finite
  std::optional<double> step_time_ms{};    // of rank 0; recent steps weigh more
  int64_t memory_allocated_bytes_max = 0;  // of any rank
  int64_t evaluated_step = 0;              // the last step that was evaluated
  int64_t saved_step = 0;                  // the last step with a checkpoint
  int64_t elapsed_ms = 0;                  // since the start of the first rank's process
};

// The reports of an attempt's ranks, taken event by event: how far the ranks are, how they ended,
// and the attempt's figures. Keeps one number for each step of each rank, and one Step for each
// step. Pure.
class AttemptReports {
 public:
  struct Attempt {
    int64_t ranks = 0;
    int64_t warmup_steps_excluded = 0;
    int64_t gradient_accumulation_steps = 1;
    std::optional<Dtype> compute{};  // number type of matrix products; nullopt: unknown
  };

  explicit AttemptReports(const Attempt& attempt);

  // Adds an event. Each rank's events come in their order, ranks in any order. Ignores a step
  // number that the rank has reported before. Times of different ranks are never compared. Throws
  // std::out_of_range if there is no such rank.
  void add(int64_t rank, const Event& event);
  // Does the same. The time of run_started is the start of the rank's process.
  void add(int64_t rank, int64_t time_unix_ms, const decltype(Event::body)& body);
  // Adds new events of every rank, as EventTail::poll returns them.
  void add(std::span<const std::vector<Event>> events_of_ranks);
  // Notes that the rank's last event was written at this time.
  void add_last_time(int64_t rank, int64_t time_unix_ms);

  const std::vector<RankState>& ranks() const { return states_; }
  const AttemptProgress& progress() const { return progress_; }
  // Returns what the rank reported at its start, if it has.
  const RunStarted& facts(int64_t rank) const { return ranks_.at(static_cast<size_t>(rank)).facts; }
  // `has_ended`: the attempt is over, even if some ranks have not said so.
  AttemptSummary summary(bool has_ended) const;
  RankSummary rank_summary(int64_t rank) const;

 private:
  struct Rank {
    RunStarted facts;
    std::optional<double> peak_tflops;
    std::vector<double> step_times_ms;  // without those of suspended steps
    RankSummary largest;                // only memory figures: the largest of any step
    std::optional<CpuUse> cpu_use;
    std::optional<int64_t> memory_host_bytes_max;
    std::map<int64_t, StepAccount> accounts;  // by step
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

  void take(int64_t rank, int64_t time_unix_ms, const RunStarted& started);
  void take(int64_t rank, int64_t time_unix_ms, const StepDone& done);
  void take_step_of_rank_0(int64_t time_unix_ms, const StepDone& done);
  void take(int64_t rank, int64_t, const EvaluationDone& evaluation);
  void take(int64_t rank, int64_t, const CheckpointDone& checkpoint);
  void take(int64_t, int64_t time_unix_ms, const DeviceSample& sample);
  void take(int64_t, int64_t, const MemoryPeak&) {}
  void take(int64_t rank, int64_t, const StepAccount& account);
  void take(int64_t rank, int64_t, const CpuUse& use) { at(rank).cpu_use = use; }
  void take(int64_t rank, int64_t, const RunFinished& finished);
  void take(int64_t rank, int64_t, const RunFailed& failed);
  void take(int64_t rank, int64_t, const RunInterrupted&);
  RankState& state(int64_t rank) { return states_[static_cast<size_t>(rank)]; }
  Rank& at(int64_t rank) { return ranks_[static_cast<size_t>(rank)]; }
  // Returns, in one line, why a rank that says it finished has not done or reported all its steps;
  // empty: it has.
  std::string what_is_missing(int64_t rank, int64_t finished_steps) const;
  Step& step_numbered(int64_t step);
  void summarise_steps(AttemptSummary& summary) const;
  void summarise_ranks(AttemptSummary& summary, bool has_ended) const;
  void summarise_devices(AttemptSummary& summary) const;
  void summarise_cpu_use(AttemptSummary& summary) const;
  void summarise_accounts(AttemptSummary& summary) const;
  // Returns the ranks' accounts of a step, from the rank that worked longest. Empty if a rank has
  // none, or was suspended in the step.
  std::vector<std::pair<int64_t, StepAccount>> accounts_of(const Step& step) const;

  Attempt attempt_;
  std::vector<RankState> states_;  // by rank
  std::vector<Rank> ranks_;
  AttemptProgress progress_;
  std::vector<Step> steps_;   // in the order of their numbers
  AttemptSummary of_rank_0_;  // losses and start-up time, up to its last event
  std::vector<double> checkpoint_times_ms_;
  std::map<std::pair<std::string, std::string>, Device> devices_;  // by host and name
};

}  // namespace fsdp
