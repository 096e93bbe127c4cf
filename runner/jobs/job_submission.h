#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/attempt/open_attempt.h"
#include "runner/jobs/job_plan.h"
#include "runner/launch/queue.h"
#include "runner/store/store.h"

namespace fsdp {

// What Slurm's records say of an attempt's device, as far as it is known without being there.
std::string slurm_device_kind(const RunSpec& spec);

// As the task of this number of a job.
JobTask task_of(const RunToLaunch& run, int64_t number);

// Submits runs as jobs of Slurm: runs that ask the same as tasks of one array, as few as the
// cluster's limits allow. Before sbatch is called, the job is recorded with a token, so that what
// was submitted is found again, whenever the runner is killed.
class JobSubmission {
 public:
  struct Settings {
    std::string experiment;
    std::string experiment_text{};
    std::filesystem::path runner{};  // the program that a job starts
    // What a job is told; token, mode and runs are filled in.
    JobPlan plan{};
    Provenance provenance{};
  };
  struct Submission {
    JobRecord job;
    std::vector<RunToLaunch> runs;
  };

  JobSubmission(const RunListeners& listeners, Queue& queue, Settings settings);

  // Runs for the next push().
  void add(std::vector<RunToLaunch> runs);
  // Submits what was added, until a limit on submitted jobs is reached. Runs that Slurm refuses
  // have failed, and others go on. Throws QueueUnavailable: to be called again later; nothing is
  // submitted twice. What was submitted until then is in take_submitted().
  void push();
  // What push() has submitted since the last call.
  std::vector<Submission> take_submitted();
  // Whether Slurm has answered since this was made.
  bool has_seen_slurm() const { return limits_.has_value(); }
  // Runs that wait for push().
  int64_t waiting() const;
  // The job, by its number in the store, of which it is not known whether Slurm has it.
  std::optional<int64_t> unanswered() const {
    return prepared_ ? std::optional(prepared_->job.id) : std::nullopt;
  }
  // Whether they wait for others to end, because of a limit.
  bool at_limit() const { return at_limit_; }
  bool some_refused() const { return some_refused_; }

 private:
  // The runs of the next job, which leave `waiting_`.
  std::vector<RunToLaunch> take_job();
  bool may_join(std::span<const RunToLaunch> job, const RunToLaunch& run) const;
  Submission prepare(std::vector<RunToLaunch> runs);
  void wait_again(std::vector<RunToLaunch> runs);
  void submit(bool may_be_submitted);
  void accept(const std::string& slurm_job);
  void refuse(const std::string& problem);
  void put_back();
  void write_folders(const JobRecord& job, std::span<const RunToLaunch> runs,
                     const std::string& script);

  RunListeners listeners_;
  Queue& queue_;
  Settings settings_;
  std::optional<QueueLimits> limits_{};
  std::deque<RunToLaunch> waiting_{};
  std::optional<Submission> prepared_{};  // recorded, not known to have been submitted
  std::vector<Submission> submitted_{};
  int64_t most_tasks_ = 1;  // that an array may have
  bool at_limit_ = false;
  bool some_refused_ = false;
};

}  // namespace fsdp
