#pragma once

#include "base/system/log.h"
#include "runner/commands/options.h"

namespace fsdp {

struct SlurmOptions {
  bool detach = false;
  bool follow = false;
  double query_interval_s = 3;
};

// The user's options for the command `run`.
struct RunArguments : TrainerQuestion {
  int max_parallel = 1;
  double time_limit_seconds = 0;  // of each run; 0: none
  bool rerun = false;
  bool skip_oversized = false;
  bool share = false;
  LogLevel log_level = LogLevel::kInfo;
  bool dry_run = false;
  bool per_rank = false;
  bool quiet = false;
  bool json = false;
  SlurmOptions slurm;
};

}  // namespace fsdp
