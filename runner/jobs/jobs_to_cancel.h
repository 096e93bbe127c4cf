#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runner/store/store.h"

namespace fsdp {

// What scancel is told.
struct JobsToCancel {
  struct Task {
    std::string name;  // as Slurm knows it
    RunRecord run;
  };
  std::vector<std::string> names{};  // jobs of which nothing else is left, else tasks
  std::vector<Task> tasks{};         // that this ends: they wait or run
  // Where more of the runs wait or run in jobs: these are cancelled there.
  std::set<std::string> other_clusters{};
};

// Those of the runs `runs` that wait or run in a job of the cluster `here`. Throws ConfigError
// where a job runs others of the experiment too, one after another, which it would end as well.
JobsToCancel jobs_to_cancel(const Store& store, const std::set<int64_t>& runs,
                            std::string_view here);

}  // namespace fsdp
