#include "runner/plan/run_predictions.h"

#include <utility>

#include "contract/record/log.h"
#include "contract/text/config_error.h"
#include "runner/plan/planned_device.h"

namespace fsdp {
namespace {

constexpr std::chrono::seconds kPatience{20};  // the longest delay of a sweep; happens once

}  // namespace

RunPredictions::RunPredictions(const Expansion& expansion, std::optional<Host> host,
                               std::filesystem::path trainer, std::filesystem::path results)
    : expansion_(expansion),
      host_(std::move(host)),
      trainer_(std::move(trainer)),
      results_(std::move(results)) {}

std::optional<RunPlan> RunPredictions::predict(const RunSpec& spec) {
  if (has_given_up_) return std::nullopt;
  try {
    if (!planner_) planner_ = std::make_unique<Planner>(trainer_, results_, kPatience);
    return planner_->plan(spec, planned_device({}, expansion_, spec, host_));
  } catch (const ConfigError& error) {
    log(LogLevel::kInfo, "prediction", error.what());
  } catch (const std::exception& error) {
    log(LogLevel::kInfo, "prediction", error.what());
    has_given_up_ = true;
    planner_.reset();
  }
  return std::nullopt;
}

}  // namespace fsdp
