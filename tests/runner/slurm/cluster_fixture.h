#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runner/cluster/slurm.h"
#include "tests/runner/slurm/fake_slurm.h"

// A cluster with fake programs, and their answers.
namespace fsdp {

using Strings = std::vector<std::string>;
using Tasks = std::vector<TaskState>;

inline constexpr const char* kNoAccounting =
    "echo 'Configuration data as of 2024-05-01T10:00:00'\n"
    "echo 'AccountingStorageType   = accounting_storage/none'\n"
    "echo 'MaxArraySize            = 1001'\n";
inline constexpr const char* kAccounting =
    "echo 'AccountingStorageType   = accounting_storage/slurmdbd'\n"
    "echo 'MaxArraySize            = 30'\n";

// Returns the bash lines of a program that fails as Slurm's programs do.
inline std::string failing(const std::string& words) {
  return "echo \"" + words + "\" >&2; exit 1\n";
}

// Returns "done", or the kind and the message of the error that `action` throws.
inline std::string said_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const QueueRefused& refused) {
    return std::string(refused.later() ? "later: " : "refused: ") + refused.what();
  } catch (const QueueUnavailable& unavailable) {
    return std::string("unavailable: ") + unavailable.what();
  } catch (const std::exception& error) {
    return std::string("error: ") + error.what();
  }
  return "done";
}

// Returns "12_0 running: RUNNING on n1 (None), 60 s" for each task.
inline Strings told(const Tasks& tasks) {
  const std::map<TaskPhase, const char*> phases{{TaskPhase::kQueued, "queued"},
                                                {TaskPhase::kRunning, "running"},
                                                {TaskPhase::kEnding, "ending"},
                                                {TaskPhase::kEnded, "ended"}};
  Strings lines;
  for (const TaskState& task : tasks) {
    lines.push_back(fmt::format("{} {}: {} on {} ({})", task.job, phases.at(task.phase), task.state,
                                task.node_list, task.reason));
    if (task.seconds_left) lines.back() += fmt::format(", {} s", *task.seconds_left);
  }
  return lines;
}

class Cluster : public SlurmQueue {
 public:
  using SlurmQueue::SlurmQueue;
  Tasks ask(const Strings& jobs, uid_t user = geteuid()) { return query(jobs, user); }
  // Returns the message of submitting a script to an sbatch that runs these bash lines.
  std::string submission(const FakeSlurm& fake, const std::string& sbatch) {
    fake.let("sbatch", sbatch);
    return said_by([&] { submit(fake.folder().write("script.sh", "#!/bin/bash\n")); });
  }
};

struct ClusterTest {
  const FakeSlurm fake;
  Cluster cluster;
};

}  // namespace fsdp
