#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/program.h"
#include "runner/cluster/queue.h"

namespace fsdp {

// The parts of `scontrol show config` that we use.
struct SlurmConfig {
  QueueLimits limits{};
  MemoryLimits memory{};
  bool has_accounting = false;  // sacct knows ended jobs
  bool hides_jobs = false;      // of other users
};

// A Slurm cluster, through its programs on PATH: sbatch, squeue, sacct, scontrol, scancel. Throws
// ConfigError if a program is missing. Ctrl-C does not interrupt the programs, and each has a time
// limit.
class SlurmQueue : public Queue {
 public:
  explicit SlurmQueue(std::chrono::milliseconds time_limit = std::chrono::seconds(60))
      : time_limit_(time_limit) {}

  QueueLimits limits() override { return config().limits; }
  std::string submit(const std::filesystem::path& script) override;
  std::optional<std::string> find_submission(const std::filesystem::path& script,
                                             uid_t user) override;
  using Queue::query;
  // Asks squeue once. Jobs and named tasks that squeue has forgotten come from sacct, if the
  // cluster has accounting. scontrol answers for the rest.
  std::vector<TaskState> query(std::span<const std::string> jobs_or_tasks, uid_t user) override;
  std::map<std::string, std::string> cancel(std::span<const std::string> jobs_or_tasks) override;

  void requeue(const std::string& job) override;
  std::optional<std::string> refusal(const std::filesystem::path& script) override;
  std::vector<Partition> partitions() override;
  MemoryLimits memory() override { return config().memory; }
  std::optional<TaskAccounts> accounts(const std::string& task) override;

  const SlurmConfig& config();

 private:
  ProgramResult call(const std::vector<std::string>& words,
                     const std::vector<std::string>& environment);
  // Returns the output of a query. Throws QueueUnavailable.
  std::string answer(const std::vector<std::string>& words);
  std::vector<TaskState> query_squeue(std::span<const std::string> jobs, uid_t user);
  // nullopt if sacct does not answer. Its database may be down while the controller is up.
  std::optional<std::vector<TaskState>> query_sacct(std::span<const std::string> ids);
  std::vector<TaskState> query_scontrol(std::span<const std::string> ids);

  std::chrono::milliseconds time_limit_;  // per call
  std::optional<SlurmConfig> config_;     // filled by the first query
  std::set<std::string> gone_;            // ids that scontrol no longer knows
};

// The reason why a queued task will not start until somebody acts, and the remedy. nullopt if the
// task only waits its turn.
std::optional<std::string> why_it_will_not_start(const TaskState& task);

// Environments (NAME=value) for Slurm's programs. They leave out variables that change answers or
// override a script's options.

// Returns the environment of all programs except sbatch, for complete answers in English. Leaves
// out defaults and filters of squeue, sacct and scancel. Also leaves out the variables of a job
// that this process may run in.
std::vector<std::string> program_environment();

// Returns the environment of sbatch. A variable SBATCH_... overrides an option in the script, so
// the variables of options that the script sets are left out.
std::vector<std::string> submission_environment(std::string_view script);

}  // namespace fsdp
