#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>

#include "contract/plan/run_plan.h"
#include "contract/record/program.h"
#include "runner/plan/planned_device.h"

namespace fsdp {

// A trainer process that plans runs and trains none.
class Planner {
 public:
  // `results` is the folder that may have prepared data. `patience` is the time limit of each
  // answer; a model of 100,000 layers takes a minute. Throws std::system_error if the trainer
  // cannot be started. The process ignores SIGPIPE from then on.
  Planner(const std::filesystem::path& trainer, std::filesystem::path results,
          std::chrono::seconds patience = std::chrono::minutes(5));

  // Returns the trainer's plan. Equal requests are asked once, except those with a timeline. Throws
  // ConfigError with the trainer's message if the run cannot be planned. Throws std::runtime_error
  // if the trainer has ended or does not answer in time.
  RunPlan plan(const RunSpec& spec, const DeviceForRuns& device, bool timeline = false);

 private:
  std::string answer_to(const PlanRequest& request);

  std::filesystem::path results_;
  std::chrono::seconds patience_;
  Conversation trainer_;
  std::map<std::string, std::string> answers_;  // by the request
};

}  // namespace fsdp
