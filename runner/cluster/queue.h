#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runner/run/launcher.h"

// Queue: a batch system that accepts jobs. runner/cluster/slurm.h implements it for Slurm.
namespace fsdp {

struct QueueLimits {
  std::string cluster{};          // the cluster's name; job ids are unique only within a cluster
  int64_t max_array_size = 1001;  // task numbers are below it
};

// The default and the largest memory of a job. nullopt: not limited, or unknown.
struct MemoryLimits {
  std::optional<int64_t> default_mib_per_node{};
  std::optional<int64_t> default_mib_per_cpu{};
  std::optional<int64_t> most_mib_per_node{};
};

// A group of nodes with limits of its own.
struct Partition {
  std::string name;
  bool is_default = false;
  std::string state{};                  // UP, DOWN, DRAIN, INACTIVE
  std::string time_limit{};             // "1-00:00:00", "UNLIMITED"
  std::optional<int64_t> most_nodes{};  // per job; absent: unknown
  MemoryLimits memory{};                // overrides Queue::memory()
};

// The measurements of a job or task in the queue's accounting.
struct TaskAccounts {
  std::optional<int64_t> node_energy_joules{};  // of its nodes
  std::optional<int64_t> memory_bytes_max{};    // resident memory of the largest process

  bool operator==(const TaskAccounts&) const = default;
};

// Thrown if the queue refused a job. It will refuse the job again, unless later() is true.
class QueueRefused : public std::runtime_error {
 public:
  QueueRefused(const std::string& problem, bool later)
      : std::runtime_error(problem), later_(later) {}

  // True if a limit on submitted jobs was reached. The job may be accepted after others end.
  bool later() const { return later_; }

 private:
  bool later_;
};

// Thrown if the queue did not answer in time. It may still have accepted a submission.
class QueueUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The state of a task that cannot be looked up.
inline constexpr const char* kHiddenState = "UNKNOWN";

// Names of jobs and tasks ("12", "12_3"), by the user whose jobs they are.
using TasksByUser = std::map<uid_t, std::vector<std::string>>;

// Every call throws QueueUnavailable if there is no answer.
//
// To add a queue system: implement this class as runner/cluster/slurm.h does, and make it where
// commands make a SlurmQueue. Describe its requests in contract/spec/slurm_spec.h, and write its
// scripts in runner/cluster/script.cpp and slurm_templates/. Its words go to kEnds in
// runner/run/judgement.cpp (how jobs end), and to kAdvice in runner/cluster/complaints.cpp (why
// jobs wait for ever). Tests need a queue to run on, as in tests/slurm/.
class Queue {
 public:
  virtual ~Queue() = default;

  virtual QueueLimits limits() = 0;
  // Returns the job's id. Throws QueueRefused. After QueueUnavailable, find_submission() tells
  // whether the job was accepted.
  virtual std::string submit(const std::filesystem::path& script) = 0;
  // The user's job with this script, if the queue knows it and shows it to this user.
  virtual std::optional<std::string> find_submission(const std::filesystem::path& script,
                                                     uid_t user) = 0;
  // Returns the states of the named tasks ("12_3"), and of all tasks of the named jobs (ids from
  // submit()). All of them are of `user`. Unknown tasks are left out. Tasks that cannot be looked
  // up now are kEnding with kHiddenState.
  virtual std::vector<TaskState> query(std::span<const std::string> jobs_or_tasks, uid_t user) = 0;
  std::vector<TaskState> query(const TasksByUser& tasks_of_users) {
    std::vector<TaskState> states;
    for (const auto& [user, tasks] : tasks_of_users) {
      std::ranges::move(query(tasks, user), std::back_inserter(states));
    }
    return states;
  }
  // Ends jobs or single tasks ("12_3"). Returns those that the queue refuses to end, with its
  // words. Tasks that are already over are no error.
  virtual std::map<std::string, std::string> cancel(std::span<const std::string> jobs_or_tasks) = 0;
  // Ends a job and queues it again. Throws std::runtime_error with the queue's error.
  virtual void requeue(const std::string& job) = 0;

  // Returns why submit() would refuse the script, as far as the queue tells. nullopt if it would
  // accept. Submits nothing.
  virtual std::optional<std::string> refusal(const std::filesystem::path& script) = 0;
  virtual std::vector<Partition> partitions() = 0;
  virtual MemoryLimits memory() = 0;
  // Returns what the accounting knows of an ended task ("12_3"). nullopt: nothing, or no answer.
  virtual std::optional<TaskAccounts> accounts(const std::string& task) = 0;
};

// Returns the queue of this host. Each call to one of its programs has the time limit.
std::unique_ptr<Queue> make_queue(std::chrono::milliseconds time_limit = std::chrono::seconds(60));

}  // namespace fsdp
