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

// Predictions for runs that are about to start, on the devices that they will use. Failures are
// only logged. After a failure of the trainer itself, the trainer is not asked again.
class RunPredictions {
 public:
  // `expansion` outlives this object. `host` is nullopt if Slurm starts the runs on other hosts.
  // The first predict() starts the trainer.
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
