#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>

#include "contract/plan/run_plan.h"
#include "contract/record/program.h"
#include "runner/plan/planned_device.h"

namespace fsdp {

// A trainer that plans runs and trains none.
class Planner {
 public:
  // `results`: where data may be prepared. `patience`: with each answer; a model of 100,000 layers
  // takes a minute. Throws std::system_error when the trainer cannot be started. The process
  // ignores SIGPIPE from then on.
  Planner(const std::filesystem::path& trainer, std::filesystem::path results,
          std::chrono::seconds patience = std::chrono::minutes(5));

  // Asks the trainer once about equal runs. Throws ConfigError, with what the trainer says, where
  // the run cannot be planned, and std::runtime_error when the trainer has ended or does not answer
  // in time.
  RunPlan plan(const RunSpec& spec, const DeviceForRuns& device, bool timeline = false);

 private:
  std::string answer_to(const PlanRequest& request);

  std::filesystem::path results_;
  std::chrono::seconds patience_;
  Conversation trainer_;
  std::map<std::string, std::string> answers_;  // by the request
};

}  // namespace fsdp
