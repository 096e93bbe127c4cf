#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runner/launch/program.h"

// The cluster, as its own programs tell: sbatch, squeue, sacct, scontrol, scancel.
namespace fsdp {

// kQueued also when a task was requeued and waits again; kEnding: its processes are being ended, or
// its state is not known to us.
enum class TaskPhase { kQueued, kRunning, kEnding, kEnded };

// A task of a job array, or a job that is none.
struct TaskState {
  std::string job;  // "12_3" or "12"
  TaskPhase phase = TaskPhase::kQueued;
  std::string state;                      // Slurm's word: PENDING, RUNNING, OUT_OF_MEMORY, ...
  std::string reason{};                   // why it waits or ended, in Slurm's word; empty: none
  std::string node_list{};                // n[1-2]; empty: on no node
  std::optional<int64_t> seconds_left{};  // of its time limit, while it runs

  bool operator==(const TaskState&) const = default;
};

// What `scontrol show config` tells.
struct SlurmConfig {
  std::string cluster{};          // its name, by which jobs of one cluster are told from another's
  int64_t max_array_size = 1001;  // a task's number is below it
  bool has_accounting = false;    // sacct knows ended jobs
};

// Slurm refused a job: the same submission will be refused again, unless later() is true.
class SlurmRefused : public std::runtime_error {
 public:
  SlurmRefused(const std::string& problem, bool later)
      : std::runtime_error(problem), later_(later) {}

  // A limit on submitted jobs was reached: when others have ended, it may be accepted.
  bool later() const { return later_; }

 private:
  bool later_;
};

// The controller did not answer, or not in time. A submission may have been accepted all the same.
class SlurmUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class SlurmCluster {
 public:
  virtual ~SlurmCluster() = default;

  virtual SlurmConfig config() = 0;
  // Returns the job's id. Throws SlurmRefused, or SlurmUnavailable: then find_submission() says
  // whether it was accepted.
  virtual std::string submit(const std::filesystem::path& script) = 0;
  // The job submitted with `token`, if the controller still knows it.
  virtual std::optional<std::string> find_submission(const std::string& token) = 0;
  // The tasks of these jobs (ids as submit() returned them), and these tasks ("12_3"), from one
  // squeue; those that it has forgotten, whole jobs or tasks that were named, from sacct where
  // there is one, else from scontrol. Tasks that nobody knows are absent; while sacct does not
  // answer, they are kEnding. Throws SlurmUnavailable.
  virtual std::vector<TaskState> query(std::span<const std::string> jobs_or_tasks) = 0;
  // Ends jobs or single tasks ("12_3"); those that are over already are no error.
  virtual void cancel(std::span<const std::string> jobs_or_tasks) = 0;
};

// The programs on PATH. Throws ConfigError where one is not there. They are not interrupted by the
// terminal's Ctrl-C, and each has a time limit.
class SlurmPrograms : public SlurmCluster {
 public:
  explicit SlurmPrograms(std::chrono::milliseconds time_limit = std::chrono::seconds(60))
      : time_limit_(time_limit) {}

  SlurmConfig config() override;
  std::string submit(const std::filesystem::path& script) override;
  std::optional<std::string> find_submission(const std::string& token) override;
  std::vector<TaskState> query(std::span<const std::string> jobs_or_tasks) override;
  void cancel(std::span<const std::string> jobs_or_tasks) override;

  // Ends a job and lets it wait to be started again. Throws SlurmUnavailable, or
  // std::runtime_error with Slurm's words.
  void requeue(const std::string& job);

 private:
  ProgramResult call(const std::vector<std::string>& words,
                     const std::vector<std::string>& environment);
  // The output of a program that is asked something. Throws SlurmUnavailable.
  std::string answer(const std::vector<std::string>& words);
  std::vector<TaskState> query_squeue(std::span<const std::string> jobs);
  // Absent: it does not answer, as its database may be down while the controller is not.
  std::optional<std::vector<TaskState>> query_sacct(std::span<const std::string> ids);
  std::vector<TaskState> query_scontrol(std::span<const std::string> ids);

  std::chrono::milliseconds time_limit_;  // of each call
  std::optional<SlurmConfig> config_;     // once asked for
  std::set<std::string> gone_;            // what scontrol does not know any more
};

// Why a queued task will not start until somebody changes something, and what; absent while it only
// waits its turn.
std::optional<std::string> why_it_will_not_start(const TaskState& task);

}  // namespace fsdp
