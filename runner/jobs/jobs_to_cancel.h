#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/store/store.h"

namespace fsdp {

// The names for scancel, and the tasks that it ends.
struct JobsToCancel {
  struct Task {
    std::string name;  // as Slurm knows it
    RunRecord run;
  };
  std::vector<std::string> names{};  // a job if all its open runs end, otherwise tasks
  std::vector<Task> tasks{};         // the waiting or running tasks that end
  // Clusters other than `here` that have more of the runs. Their jobs are cancelled there.
  std::set<std::string> other_clusters{};
};

// Finds the runs of `runs` that wait or run in jobs of the cluster `here`. Throws ConfigError if an
// allocation also holds other runs, because cancelling it would end them too.
JobsToCancel jobs_to_cancel(const Store& store, const std::set<int64_t>& runs,
                            std::string_view here);

}  // namespace fsdp
