#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/cluster/job_plan.h"
#include "runner/cluster/queue.h"
#include "runner/run/attempt.h"
#include "runner/store/store.h"

namespace fsdp {

// Describes an attempt's device as far as the spec tells, without access to the node.
std::string slurm_device_kind(const RunSpec& spec);

// Returns the run as the job's task with this number.
JobTask task_of(const RunRecord& run, int64_t number);

// Throws ConfigError, with the place of the wrong key, if a run could not be submitted to Slurm.
void check_jobs_of(const Expansion& expansion);

// Returns the job of a submission whose id is unknown. If there is none, withdraws the submission,
// so that its runs can be submitted anew. Throws QueueUnavailable.
std::optional<std::string> find_or_withdraw(Queue& queue, const std::filesystem::path& folder);

// Submits runs as Slurm jobs. Runs with equal requests become tasks of one array, in as few jobs as
// the cluster's limits allow. A job is recorded, with a folder of its own, before sbatch is called.
// If the runner is killed, or sbatch gives no answer, the folder leads to the job, if there is one.
class JobSubmission {
 public:
  struct Settings {
    std::string experiment;
    std::string experiment_text{};
    std::filesystem::path runner{};  // the program that a job starts
    // The job's plan. push() fills in the mode.
    JobPlan plan{};
    // Returns the search that waits for the run's result, if any. An allocation continues it.
    std::function<std::optional<SearchState>(const RunRecord&)> search_of{};
  };
  struct Submission {
    JobRecord job;
    std::vector<RunRecord> runs;
  };

  JobSubmission(const RunListeners& listeners, Queue& queue, Settings settings);

  // Adds runs for the next push().
  void add(std::vector<RunRecord> runs);
  // Submits the added runs until a limit on submitted jobs is reached. Refused runs fail, and the
  // others continue. Throws QueueUnavailable; a later call then continues and submits nothing
  // twice. take_submitted() returns what was submitted before the exception.
  void push();
  // Returns the submissions of push() since the last call.
  std::vector<Submission> take_submitted();
  // True if Slurm has answered this object.
  bool has_seen_slurm() const { return limits_.has_value(); }
  // The number of runs that wait for push().
  int64_t waiting() const;
  // The store's id of the job that Slurm may or may not have received.
  std::optional<int64_t> unanswered() const {
    return prepared_ ? std::optional(prepared_->job.id) : std::nullopt;
  }
  // True if a limit on submitted jobs was reached, so other jobs must end before the waiting runs
  // can be submitted.
  bool at_limit() const { return at_limit_; }
  bool some_refused() const { return some_refused_; }

 private:
  // Takes the runs of the next job out of `waiting_`.
  std::vector<RunRecord> take_runs_of_next_job();
  bool may_join(std::span<const RunRecord> job, const RunRecord& run) const;
  Submission prepare(std::vector<RunRecord> runs);
  // Returns the jobs that must end before a new one, so that at most slurm.max_parallel tasks of
  // the experiment run at a time.
  std::vector<std::string> jobs_to_wait_for(const SlurmSpec& slurm, int64_t tasks) const;
  void wait_again(std::vector<RunRecord> runs);
  void submit();
  void confirm_unanswered();
  void wait_again_with_prepared();
  void accept(const std::string& slurm_job);
  void refuse(const std::string& problem);
  void put_back();
  void write_folders(const JobRecord& job, std::span<const RunRecord> runs,
                     const std::string& script);

  RunListeners listeners_;
  Queue& queue_;
  Settings settings_;
  std::optional<QueueLimits> limits_{};
  std::deque<RunRecord> waiting_{};
  std::optional<Submission> prepared_{};  // recorded, maybe submitted
  std::vector<Submission> submitted_{};
  int64_t most_tasks_ = 1;  // per array
  bool at_limit_ = false;
  bool some_refused_ = false;
};

}  // namespace fsdp
