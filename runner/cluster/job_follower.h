#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/cluster/queue.h"
#include "runner/run/attempt.h"
#include "runner/store/store.h"

namespace fsdp {

// Follows runs that wait or run in Slurm jobs. Jobs write the ends of their runs themselves. The
// follower shows what their files say, and judges what a job left without a verdict. Never queries
// Slurm and starts nothing.
class JobFollower {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  JobFollower(const RunListeners& listeners, std::function<TimePoint()> now);

  // `runs` holds the runs of the job's open tasks, in any order. If `can_be_asked` is false, only
  // the job's files are followed. Otherwise the job must have its Slurm id.
  void follow(JobRecord job, std::span<const RunRecord> runs, bool can_be_asked = true);
  // Drops all jobs. Call this if another call threw: this object then holds changes that the store
  // has undone. Follow the store's jobs anew afterwards.
  void forget();
  // Records new events of the attempts that are known to run. Returns true if an attempt has ended,
  // or if its ranks' reports now suffice to judge it (reports_decide()).
  bool read_events();
  // Updates every task. `states` is the answer to a query about tasks(). If it is absent, Slurm did
  // not answer, and no task ends. Returns the runs that have ended, with their statuses. Runs that
  // one task of Slurm held are returned together, in the order of their starts.
  std::vector<RunRecord> pass(const std::optional<std::vector<TaskState>>& states);

  // The Slurm names of the open tasks that can be queried here.
  TasksByUser tasks() const;
  // True if the run waits or runs.
  bool follows(int64_t run) const;
  // True if a run of this family is in a job that is not over. The job may choose others.
  bool follows_family(std::string_view family) const;
  // True if Slurm reports a task as over but some of its files may still be missing.
  bool waits_for_files() const;

 private:
  struct Run {
    JobTask task;
    RunRecord record;
    int seen_attempt = 0;                    // the newest that was looked at
    bool is_queued = false;                  // the store and the user know that it waits
    std::unique_ptr<OpenAttempt> attempt{};  // has no verdict yet
    std::optional<RunStatus> ended{};        // by the verdict on its newest attempt

    // True if the job will not start the run again.
    bool is_done() const { return ended && !was_ended_by_cluster(*ended); }
  };
  // A task of an array with its run, or a job with all its runs. Slurm starts and ends it as one.
  struct Part {
    std::string name;  // "12_3", "12"
    std::vector<Run> runs{};
    int64_t seen_unix_ms = 0;               // Slurm last said then that it runs; 0: never
    std::optional<TimePoint> over_since{};  // Slurm says it is over, or waits; files may lag
    bool is_over = false;
  };
  struct Job {
    JobRecord recorded;
    uid_t user;  // who submitted it
    bool can_be_asked = true;
    std::vector<Part> parts{};      // only open ones
    std::string blocked_because{};  // why the job will not start
    bool is_replaced = false;       // another job has its number
    bool is_changed = false;        // `recorded` differs from the store's
  };

  void add(Job& job, const JobTask& task, const RunRecord& record);
  void add_chosen_runs(Job& job);
  // True if `holds` is true for a run of a part that is open.
  bool any(const std::function<bool(const Part&, const Run&)>& holds) const;
  std::vector<AttemptRecord> attempts_of(const Part& part, const Run& run) const;
  bool is_own(Job& job, const TaskState& state);
  void ask_server_for_files() const;
  // Shows the attempts that are new in the index, and their ends.
  void look(const Part& part, Run& run);
  void open(Run& run, const AttemptRecord& attempt);
  void show_end(Run& run, const Verdict& verdict) const;
  void read_rest(OpenAttempt& attempt) const;
  void take_state(Job& job, Part& part, const std::optional<TaskState>& state);
  void wait_in_queue(Job& job, Part& part, const TaskState& state);
  void warn_if_blocked(Job& job, const TaskState& state);
  static bool may_choose(const Job& job, const Part& part);
  bool is_settled(const Run& run) const;
  bool has_end(const Run& run) const;
  bool may_judge(const Job& job, Part& part, bool is_over);
  void end(Job& job, Part& part, const std::optional<TaskState>& state);
  std::optional<Verdict> judge_attempts(const Job& job, const Part& part, Run& run,
                                        const std::optional<TaskState>& state,
                                        int64_t last_end) const;
  Verdict judge(const Job& job, const Part& part, const Run& run, int attempt,
                std::span<const RankState> ranks, bool was_requeued,
                const std::optional<TaskState>& state) const;
  Verdict end_without_attempt(const Job& job, const Part& part, const Run& run,
                              const std::optional<TaskState>& state) const;
  static void record(Job& job, Run& run, const JobTask& task);
  RunPaths paths(const Run& run) const;

  RunListeners listeners_;
  std::function<TimePoint()> now_;
  std::vector<Job> jobs_;
  std::vector<RunRecord> ended_;
};

}  // namespace fsdp
