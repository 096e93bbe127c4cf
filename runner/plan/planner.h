#pragma once

#include <filesystem>

#include "contract/plan/run_plan.h"
#include "runner/launch/program.h"

namespace fsdp {

// A trainer that plans runs and trains none.
class Planner {
 public:
  // `results`: where data may be prepared. Throws std::system_error when the trainer cannot be
  // started. The process ignores SIGPIPE from then on.
  Planner(const std::filesystem::path& trainer, std::filesystem::path results);

  // Throws ConfigError, with what the trainer says, where the run cannot be planned, and
  // std::runtime_error when the trainer has ended or is silent for minutes.
  RunPlan plan(const RunSpec& spec, const PlannedDevice& device);

 private:
  std::filesystem::path results_;
  Conversation trainer_;
};

}  // namespace fsdp
