#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// Queue: a batch system that jobs are submitted to. Slurm's is runner/slurm/slurm.h.
namespace fsdp {

// kQueued also when a task was requeued and waits again; kEnding: its processes are being ended, or
// its state is not known to us.
enum class TaskPhase { kQueued, kRunning, kEnding, kEnded };

// A task of a job array, or a job that is none.
struct TaskState {
  std::string job;  // "12_3" or "12"
  TaskPhase phase = TaskPhase::kQueued;
  std::string state;                      // the queue's word: PENDING, RUNNING, OUT_OF_MEMORY, ...
  std::string reason{};                   // why it waits or ended, in its word; empty: none
  std::string node_list{};                // n[1-2]; empty: on no node
  std::optional<int64_t> seconds_left{};  // of its time limit, while it runs

  bool operator==(const TaskState&) const = default;
};

struct QueueLimits {
  std::string cluster{};          // its name, by which jobs of one cluster are told from another's
  int64_t max_array_size = 1001;  // a task's number is below it
};

// The queue refused a job: the same submission will be refused again, unless later() is true.
class QueueRefused : public std::runtime_error {
 public:
  QueueRefused(const std::string& problem, bool later)
      : std::runtime_error(problem), later_(later) {}

  // A limit on submitted jobs was reached: when others have ended, it may be accepted.
  bool later() const { return later_; }

 private:
  bool later_;
};

// The queue did not answer, or not in time. A submission may have been accepted all the same.
class QueueUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Every call throws QueueUnavailable where there is no answer.
class Queue {
 public:
  virtual ~Queue() = default;

  virtual QueueLimits limits() = 0;
  // Returns the job's id. Throws QueueRefused. Without an answer find_submission() says whether it
  // was accepted.
  virtual std::string submit(const std::filesystem::path& script) = 0;
  // The job submitted with `token`, if the queue still knows it.
  virtual std::optional<std::string> find_submission(const std::string& token) = 0;
  // The tasks of these jobs (ids as submit() returned them), and these tasks ("12_3"). Tasks that
  // nobody knows are absent; those of which that is not known for now are kEnding.
  virtual std::vector<TaskState> query(std::span<const std::string> jobs_or_tasks) = 0;
  // Ends jobs or single tasks ("12_3"); those that are over already are no error.
  virtual void cancel(std::span<const std::string> jobs_or_tasks) = 0;
};

}  // namespace fsdp
