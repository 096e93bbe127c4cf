#include "runner/plan/planner.h"

#include <unistd.h>

#include <csignal>

#include "contract/spec/run_spec_yaml.h"
#include "contract/text/foreign_json.h"
#include "contract/text/json.h"
#include "contract/text/json_fields.h"

namespace fsdp {
namespace {

std::vector<std::string> own_variables() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  return variables;
}

}  // namespace

Planner::Planner(const std::filesystem::path& trainer, std::filesystem::path results,
                 std::chrono::seconds patience)
    : results_(std::move(results)),
      patience_(patience),
      trainer_({trainer.string(), "--plan"}, own_variables()) {
  std::signal(SIGPIPE, SIG_IGN);  // a trainer that has ended must not end this process
}

RunPlan Planner::plan(const RunSpec& spec, const DeviceForRuns& device, bool timeline) {
  const PlanRequest request{.specification = to_yaml(spec),
                            .device = device.device,
                            .host = device.host,
                            .results = results_,
                            .timeline = timeline};
  PlanAnswer answer;
  JsonFields("the trainer's plan").read("", parse_foreign_json(answer_to(request)), answer);
  if (!answer.plan) throw ConfigError("", "", answer.error);
  return std::move(*answer.plan);
}

std::string Planner::answer_to(const PlanRequest& request) {
  const std::string question = json_text(request);
  if (request.timeline) return trainer_.ask(question, patience_);  // long, and requested only once
  const auto known = answers_.find(question);
  if (known != answers_.end()) return known->second;
  return answers_[question] = trainer_.ask(question, patience_);
}

}  // namespace fsdp
