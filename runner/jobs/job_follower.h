#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/attempt/open_attempt.h"
#include "runner/launch/queue.h"
#include "runner/store/store.h"

namespace fsdp {

// Follows runs that wait or run in jobs of Slurm: what jobs wrote into run folders and what Slurm
// says of them goes to the store and to the user. Asks nothing of Slurm itself, starts nothing.
class JobFollower {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // A run that has ended.
  struct Ended {
    RunToLaunch run;
    RunStatus status;
    // The job, by its number in the store, that goes on with other runs of the experiment.
    std::optional<int64_t> goes_on{};
  };

  JobFollower(const RunListeners& listeners, std::function<TimePoint()> now);

  // `runs` are those of the job's open tasks, in any order. Of a job that Slurm cannot be asked
  // about here only what it writes is followed; others have their id.
  void follow(JobRecord job, std::span<const RunToLaunch> runs, bool can_be_asked = true);
  // Follows nothing any more. Where a call threw, what it recorded was undone and this does not
  // know: begin anew with what the store knows.
  void forget();
  // Another run of a job that is followed.
  void follow_in(int64_t job, RunToLaunch run);

  // What was written about attempts that are known to run.
  void read_events();
  // What became of every task. `states` is the answer to a query about jobs(); absent: Slurm did
  // not answer, and no task ends. Returns the runs that have ended.
  std::vector<Ended> pass(const std::optional<std::vector<TaskState>>& states);

  // What Slurm calls the tasks that are not over, to be asked about here.
  std::vector<std::string> tasks() const;
  // Whether the run waits or runs.
  bool follows(int64_t run) const;
  // Whether a task is over, as Slurm says, and its files may not be all there yet.
  bool waits_for_files() const;

 private:
  struct Task {
    JobTask recorded;
    RunToLaunch run;
    std::unique_ptr<OpenAttempt> attempt{};
    std::optional<TimePoint> over_since{};  // Slurm or end.json said so, and files may lag
    bool is_queued = false;                 // and recorded and told so
    // Of an allocation: the run has, and the job goes on.
    bool has_ended = false;
    // How the cluster ended it, where the job's own end, or that it is requeued, is to follow.
    std::optional<RunStatus> cut_short{};
  };
  struct Job {
    JobRecord recorded;
    bool can_be_asked = true;
    std::vector<Task> tasks{};      // those that are not over
    std::string blocked_because{};  // why it will not start

    bool is_allocation() const { return recorded.mode == "allocation"; }
  };

  Task open_task(const Job& job, const JobTask& recorded, RunToLaunch run);
  void ask_server_for_files(const Task& task) const;
  void read_files(const Job& job, Task& task);
  void take_state(Job& job, Task& task, const std::optional<TaskState>& state);
  void wait_in_queue(Job& job, Task& task, const TaskState& state);
  // Whether it ended now.
  bool end_in_allocation(Job& job, Task& task);
  void end_task(Job& job, Task& task, const std::optional<TaskState>& state);
  void end_without_attempt(Job& job, Task& task, const std::optional<TaskState>& state);
  RunStatus close(const Job& job, Task& task, bool was_requeued,
                  const std::optional<TaskState>& state);
  bool may_judge(Task& task);
  void record(Job& job, Task& task, const TaskState& state);
  void tell_what_blocks(Job& job, const TaskState& state);
  RunPaths paths(const Task& task) const;

  RunListeners listeners_;
  std::function<TimePoint()> now_;
  std::vector<Job> jobs_;
  std::vector<Ended> ended_;
};

}  // namespace fsdp
