#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "contract/plan/run_plan.h"
#include "runner/experiment/experiment.h"
#include "runner/host/host.h"
#include "runner/plan/planner.h"

namespace fsdp {

// What runs of an experiment that are about to begin will take, on the devices that they are for.
// Advice: a trainer that cannot say it is asked no more, and nothing of it is told but in the log.
class RunPredictions {
 public:
  // `expansion` outlives it. `host`: absent where Slurm starts the runs, on others. The trainer is
  // started when it is first asked.
  RunPredictions(const Expansion& expansion, std::optional<Host> host,
                 std::filesystem::path trainer, std::filesystem::path results);

  std::optional<RunPlan> predict(const RunSpec& spec);

 private:
  const Expansion& expansion_;
  std::optional<Host> host_;
  std::filesystem::path trainer_;
  std::filesystem::path results_;
  std::unique_ptr<Planner> planner_;  // null: not started, or given up
  bool has_given_up_ = false;
};

}  // namespace fsdp
