#include "runner/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <utility>

#include "base/system/cgroups.h"
#include "base/system/log.h"
#include "base/system/processor.h"
#include "base/text/config_error.h"
#include "base/text/foreign_json.h"
#include "base/text/json.h"
#include "base/text/json_fields.h"
#include "contract/devices/device_table.h"
#include "contract/spec/run_spec_yaml.h"
#include "contract/spec/slurm_spec.h"

namespace fsdp {
namespace {

int64_t bytes_of_gib(double gib) { return std::llround(gib * 0x1p30); }

// Returns the usable memory. CUDA provides less than the driver reports.
double usable_gib(const Gpu& gpu) {
  const double all = static_cast<double>(gpu.memory_bytes) / 0x1p30;
  const DeviceModel* model = device_table().device_of(gpu.name);
  return model ? std::min(all, model->memory_gib) : all;
}

// Returns the GPU without context_bytes.
DeviceForRuns find_gpu(const std::optional<std::string>& name, const Expansion& expansion,
                       const RunSpec& spec, const Host& host) {
  const auto gpu = [](double gib, int64_t compute_capability, std::string text) {
    return DeviceForRuns{.device = {.kind = DeviceKind::kCuda,
                                    .memory_bytes = bytes_of_gib(gib),
                                    .compute_capability = compute_capability},
                         .name = std::move(text)};
  };
  if (name) {
    const DeviceModel model = device_table().find(*name);
    DeviceForRuns there = gpu(model.memory_gib, model.compute_capability,
                              fmt::format("{}, {:.4g} GiB", model.name, model.memory_gib));
    if (!model.driver_names.empty()) there.device.name = model.driver_names.front();
    return there;
  }
  if (const auto& gib = spec.slurm.gpu_memory_gib; gib && host.gpus.empty()) {
    return gpu(*gib, 0, fmt::format("a GPU of {} GiB (slurm.gpu_memory_gib)", *gib));
  }
  if (!host.gpus.empty()) {
    const Gpu& smallest = *std::ranges::min_element(host.gpus, {}, &Gpu::memory_bytes);
    const int64_t capability =
        smallest.capability ? 10 * smallest.capability->major + smallest.capability->minor : 0;
    DeviceForRuns here = gpu(usable_gib(smallest), capability, smallest.name);
    here.device.name = smallest.name;
    return here;
  }
  if (const auto& gib = expansion.profile_gpu_memory_gib) {
    return gpu(*gib, 0, fmt::format("a GPU of {} GiB (profile {})", *gib, expansion.profile));
  }
  return gpu(0, 0, "a GPU of unknown memory (name one with --gpu)");
}

DeviceForRuns planned_gpu(const std::optional<std::string>& name, const Expansion& expansion,
                          const RunSpec& spec, const Host& host) {
  DeviceForRuns gpu = find_gpu(name, expansion, spec, host);
  const DeviceTable& table = device_table();
  const bool uses_nccl = spec.strategy.kind != StrategyKind::kSingle;
  gpu.device.context_bytes =
      bytes_of_gib(uses_nccl ? table.context_with_nccl_gib : table.context_gib);
  return gpu;
}

std::string cpu_name(const PlanTarget& target, const RunSpec& spec, bool on_cluster) {
  if (target.host_memory_gib) {
    return fmt::format("the CPU of a host of {} GiB", *target.host_memory_gib);
  }
  if (on_cluster) {
    return node_memory_bytes(spec.slurm) ? "CPUs of the cluster, with slurm.mem of each node"
                                         : "CPUs of the cluster";
  }
  return cgroup_memory_limit_bytes() ? "the CPU, within the memory limit of this job or container"
                                     : "the CPU";
}

// Returns the number of ranks on the fullest node. Without Slurm all ranks run on one node.
int64_t ranks_of_node(const RunSpec& spec, bool on_cluster) {
  const int64_t ranks = std::max<int64_t>(1, spec.strategy.ranks);
  if (!on_cluster) return ranks;
  if (spec.device != DeviceKind::kCuda) return (ranks + spec.slurm.nodes - 1) / spec.slurm.nodes;
  return spec.slurm.gpus_per_node > 0 ? std::min(ranks, spec.slurm.gpus_per_node) : ranks;
}

int64_t node_bytes(const PlanTarget& target, const RunSpec& spec, const std::optional<Host>& host) {
  if (target.host_memory_gib) return bytes_of_gib(*target.host_memory_gib);
  if (!host) return node_memory_bytes(spec.slurm).value_or(0);
  const bool runs_here = spec.device != DeviceKind::kCuda || (!target.gpu && !host->gpus.empty());
  return runs_here ? memory_available_bytes() : 0;
}

constexpr std::chrono::seconds kPatienceOfRuns{20};  // the longest delay of a sweep; happens once

}  // namespace

DeviceForRuns planned_device(const PlanTarget& target, const Expansion& expansion,
                             const RunSpec& spec, const std::optional<Host>& host) {
  const bool is_cuda = spec.device == DeviceKind::kCuda;
  DeviceForRuns planned;
  if (is_cuda) planned = planned_gpu(target.gpu, expansion, spec, host.value_or(Host()));
  planned.host = {.memory_bytes = node_bytes(target, spec, host),
                  .ranks = ranks_of_node(spec, !host)};
  if (is_cuda) return planned;
  planned.device.memory_bytes = planned.host.memory_bytes / planned.host.ranks;
  if (host) planned.device.name = processor_name();
  planned.name = cpu_name(target, spec, !host);
  return planned;
}

Resources planned_resources(const PlanTarget& target, const std::optional<Host>& host) {
  constexpr int64_t kAnyNumber = 1'000'000;
  Resources resources = host.value_or(Host()).resources;
  if (target.gpu) {
    resources.gpu_count = kAnyNumber;
    resources.gpu_memory_gib = device_table().find(*target.gpu).memory_gib;
  }
  return resources;
}

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

RunPredictions::RunPredictions(const Expansion& expansion, std::optional<Host> host,
                               std::filesystem::path trainer, std::filesystem::path results)
    : expansion_(expansion),
      host_(std::move(host)),
      trainer_(std::move(trainer)),
      results_(std::move(results)) {}

std::optional<RunPlan> RunPredictions::predict(const RunSpec& spec) {
  if (has_given_up_) return std::nullopt;
  try {
    if (!planner_) planner_ = std::make_unique<Planner>(trainer_, results_, kPatienceOfRuns);
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
