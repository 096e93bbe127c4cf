#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "contract/spec/run_spec.h"
#include "runner/experiment/doubling_series.h"
#include "runner/experiment/experiment.h"
#include "runner/run/run_loop.h"
#include "runner/store/store.h"

namespace fsdp {

// The state of a search for the largest value of a doubled key. A job continues the search from it.
struct SearchState {
  std::optional<int64_t> expected{};
  std::optional<int64_t> largest_that_fits{};
  std::optional<int64_t> smallest_that_does_not_fit{};
  std::optional<int64_t> most{};       // nothing above is launched
  std::optional<int64_t> too_large{};  // the smallest value that is known to run out of memory
  std::vector<RunRecord> known{};      // the runs of other values
  bool begins_anew = false;            // results of earlier runs do not count

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("expected", self.expected);
    visit("largest_that_fits", self.largest_that_fits);
    visit("smallest_that_does_not_fit", self.smallest_that_does_not_fit);
    visit("most", self.most);
    visit("too_large", self.too_large);
    visit("known", self.known);
    visit("begins_anew", self.begins_anew);
  }
};

// A search under way for the largest value of a doubled key that fits.
struct ValueSearch {
  std::shared_ptr<const DoublingSeries> doubling;
  Doubling search;
  std::optional<RunSpec> checked;  // passed check_inputs(); nullopt: the runs are not launched
  std::optional<int64_t> most{};   // nothing above is launched

  // Tells the search how a run ended. Returns false if the status is no result.
  bool take_result(const RunRecord& ended, RunStatus status);
};

// Answers a search's questions about the values that it reaches.
struct KnownValues {
  // Returns the value's run. Throws ConfigError if the key cannot have the value.
  std::function<RunRecord(int64_t value)> run_of;
  // Returns whether the run fits. nullopt: it has to be launched.
  std::function<std::optional<bool>(const RunRecord& run)> fits;
  std::function<void(const std::string& line)> say;  // to the user
};

// Returns the run of the next value that has to be launched; nullopt: the search is over. Passes
// over values with known results, and tells the search these results.
std::optional<RunRecord> next_to_launch(ValueSearch& series, const KnownValues& known);

// Decides which of an experiment's runs are launched: those without a result. The values of a
// doubled key are launched one after the other, except values that are known not to fit. plan()
// reads the known results of a search. The choices after that need no index.
class RunPlanner {
 public:
  struct Settings {
    std::function<std::string(const RunSpec&)> device_kind;  // as AttemptStart has it
    bool rerun = false;           // also launch runs with results and runs known not to fit
    PredictRun predict{};         // says where a search begins; empty: at its range's start
    bool skip_oversized = false;  // launch nothing above the value that is predicted to fit
    std::function<void(const std::string&)> say;
    // The results folder, where after() may add a run while the index cannot be written. Empty:
    // after() needs the index, because jobs know runs by its numbers.
    std::filesystem::path results{};
  };

  RunPlanner(Store& store, FileDigest digest, Settings settings);

  // Records the runs in the store as the experiment's current list. Returns those to launch.
  // `chosen` comes from planned_runs(expansion.runs), `left_out` from
  // left_out_runs(expansion.left_out). A later call takes the place of an earlier one.
  std::vector<RunRecord> plan(const ExperimentRecord& record, const Expansion& expansion,
                              std::vector<RunRecord> chosen, std::vector<RunRecord> left_out);
  // The number of chosen runs with a result that stays.
  int64_t with_result() const { return with_result_; }

  // True if a run to launch follows an ended run of a doubled key.
  bool follows_from_ended(int64_t run) const;

  // Returns the search that waits for this run's result, if any.
  std::optional<SearchState> search_of(const RunRecord& run) const;

  // Returns the run that follows an ended run of a doubled key, and adds it to the list. May be
  // called again if it threw, or if its changes to the store were undone.
  std::optional<RunRecord> after(const RunRecord& ended, RunStatus status);

 private:
  struct Step {
    RunRecord run;
    bool is_passed_over = false;          // the search knows if the run fits
    std::string reason{};                 // why, if it is to be recorded
    std::optional<ValueSearch> search{};  // that waits for the run's result
  };

  bool begins_anew(const RunRecord& run) const;
  bool begins_anew(const ValueSearch& series) const;
  RunRecord run_of(const ValueSearch& series, int64_t value);
  std::vector<Step> begin(ValueSearch series);
  std::vector<Step> recorded_steps(ValueSearch& series);
  void expect(ValueSearch& series) const;
  std::vector<Step> walk(ValueSearch series);
  // Returns the run if it is to be launched. Its search, if any, then waits for it.
  std::optional<RunRecord> launched(Step step, RunRecord record);

  // The family's runs, as plan() found them and as they have ended since.
  std::vector<RunOfFamily>& family(const std::string& name);
  std::optional<bool> is_known_to_fit(Step& step) const;
  const RunRecord* smallest_out_of_memory(const RunRecord& run) const;
  void note_result(const RunRecord& ended, RunStatus status);

  void pass_over(const Step& step, const RunRecord& record);
  RunRecord add(const Step& step);
  RunRecord add_to_files(const Step& step);

  Store& store_;
  FileDigest digest_;
  Settings settings_;
  std::string list_{};                     // the name under which plan() recorded the runs
  std::map<int64_t, ValueSearch> series_;  // by the id of the awaited run
  std::map<std::string, std::vector<RunOfFamily>> families_;
  std::set<std::filesystem::path> only_in_files_;  // folders of added runs
  int64_t with_result_ = 0;
};

}  // namespace fsdp
