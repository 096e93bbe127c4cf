#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runner/cluster/queue.h"
#include "runner/run/attempt.h"
#include "runner/store/store.h"

namespace fsdp {

// Follows runs that wait or run in Slurm jobs. Passes the events in run folders and Slurm's states
// on to the store and the user. Never queries Slurm and starts nothing.
class JobFollower {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  JobFollower(const RunListeners& listeners, std::function<TimePoint()> now);

  // `runs` holds the runs of the job's open tasks, in any order. Without `have_specs` their
  // specifications are read when they are needed, since thousands may wait. If `can_be_asked` is
  // false, only the job's files are followed. Otherwise the job must have its Slurm id.
  void follow(JobRecord job, std::span<const RunRecord> runs, bool can_be_asked = true,
              bool have_specs = true);
  // Drops all jobs. Call this if another call threw: this object then holds changes that the store
  // has undone. Follow the store's jobs anew afterwards.
  void forget();
  // Records new events of the attempts that are known to run. Returns true if the reports of an
  // attempt's ranks now suffice to judge it (reports_decide()).
  bool read_events();
  // Updates every task. `states` is the answer to a query about tasks(). If it is absent, Slurm did
  // not answer, and no task ends. Returns the runs that have ended, with their statuses. The runs
  // of an allocation are returned together when the allocation is over, in the order of their
  // starts.
  std::vector<RunRecord> pass(const std::optional<std::vector<TaskState>>& states);

  // The Slurm names of the open tasks that can be queried here.
  TasksByUser tasks() const;
  // True if the run waits or runs.
  bool follows(int64_t run) const;
  // True if Slurm reports a task as over but some of its files may still be missing.
  bool waits_for_files() const;

 private:
  struct Task {
    JobTask recorded;
    RunRecord run;
    int64_t not_begun_unix_ms;  // it waited then, by this host's clock
    int64_t seen_unix_ms = 0;   // Slurm last said then that it runs; 0: never
    bool has_spec;              // of `run`
    std::unique_ptr<OpenAttempt> attempt{};
    std::optional<TimePoint> over_since{};  // Slurm or end.json says it is over; files may lag
    bool is_queued = false;                 // the store and the user know that it waits
    int seen_attempt = 0;                   // the newest that was looked at
    // The status of the run if it has ended while the task is open.
    std::optional<RunStatus> ended{};

    // True if the job will not start the run again.
    bool is_done() const { return ended && !was_ended_by_cluster(*ended); }
  };
  struct Job {
    JobRecord recorded;
    uid_t user;  // who submitted it
    bool can_be_asked = true;
    std::vector<Task> tasks{};       // only open ones
    std::vector<RunRecord> ended{};  // of an allocation's closed tasks
    int64_t chosen = 0;              // the number of chosen runs that were read
    std::string blocked_because{};   // why the job will not start
    bool is_replaced = false;        // another job has its number
    bool is_changed = false;         // `recorded` differs from the store's

    bool is_allocation() const { return recorded.mode == "allocation"; }
  };

  Task open_task(const Job& job, const JobTask& recorded, RunRecord run, bool has_spec);
  // Adds the runs that an allocation has chosen by itself.
  void add_chosen_runs(Job& job);
  bool is_own(Job& job, const TaskState& state);
  void ask_server_for_files(const Task& task) const;
  std::vector<AttemptRecord> new_attempts(const Job& job, Task& task) const;
  void read_files(const Job& job, Task& task);
  void take_state(Job& job, Task& task, const std::optional<TaskState>& state);
  void wait_in_queue(Job& job, Task& task, const TaskState& state);
  // True if the run ended in this call.
  bool end_in_allocation(Job& job, Task& task);
  void end_task(Job& job, Task& task, std::optional<TaskState> state);
  // Both return the run's status.
  RunStatus end_without_attempt(const Job& job, const Task& task,
                                const std::optional<TaskState>& state);
  RunStatus close(const Job& job, Task& task, bool was_requeued,
                  const std::optional<TaskState>& state);
  std::optional<Verdict> read_late_events(const Job& job, Task& task) const;
  bool has_end(const Task& task) const;
  bool may_judge(Task& task);
  void open(Task& task, const AttemptRecord& attempt);
  // Reads a part of the new events, or all of them.
  void read(const Task& task);
  void read_rest(const Task& task);
  // Brings the store up to date with the events that were read.
  void record_news();
  static void record(Job& job, Task& task, const TaskState& state);
  // Takes the task over to the job's record, which pass() writes.
  static void keep(Job& job, const JobTask& task);
  void warn_if_blocked(Job& job, const TaskState& state);
  RunPaths paths(const Task& task) const;
  void read_spec(Task& task) const;

  RunListeners listeners_;
  std::function<TimePoint()> now_;
  std::vector<Job> jobs_;
  std::set<std::filesystem::path> news_{};  // folders of runs
  std::vector<RunRecord> ended_;
};

}  // namespace fsdp
