#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "contract/record/program.h"
#include "runner/launch/queue.h"

namespace fsdp {

// What `scontrol show config` tells.
struct SlurmConfig {
  QueueLimits limits{};
  bool has_accounting = false;  // sacct knows ended jobs
};

// What `scontrol show partition` tells of one.
struct Partition {
  std::string name;
  bool is_default = false;
  std::string state{};                  // UP, DOWN, DRAIN, INACTIVE
  std::string time_limit{};             // "1-00:00:00", "UNLIMITED"
  std::optional<int64_t> most_nodes{};  // of a job; absent: not known
};

// A cluster of Slurm, as its programs on PATH tell: sbatch, squeue, sacct, scontrol, scancel.
// Throws ConfigError where one is not there. They are not interrupted by the terminal's Ctrl-C, and
// each has a time limit.
class SlurmQueue : public Queue {
 public:
  explicit SlurmQueue(std::chrono::milliseconds time_limit = std::chrono::seconds(60))
      : time_limit_(time_limit) {}

  QueueLimits limits() override { return config().limits; }
  std::string submit(const std::filesystem::path& script) override;
  std::optional<std::string> find_submission(const std::string& token) override;
  // From one squeue; those that it has forgotten, whole jobs or tasks that were named, from sacct
  // where there is one, else from scontrol.
  std::vector<TaskState> query(std::span<const std::string> jobs_or_tasks) override;
  void cancel(std::span<const std::string> jobs_or_tasks) override;

  // Why submit() would refuse the script, as far as Slurm says it beforehand; absent: it would not.
  // Nothing is submitted. Throws QueueUnavailable.
  std::optional<std::string> refusal(const std::filesystem::path& script);

  std::vector<Partition> partitions();

  const SlurmConfig& config();
  // Ends a job and lets it wait to be started again. Throws QueueUnavailable, or
  // std::runtime_error with Slurm's words.
  void requeue(const std::string& job);

 private:
  ProgramResult call(const std::vector<std::string>& words,
                     const std::vector<std::string>& environment);
  // The output of a program that is asked something. Throws QueueUnavailable.
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
