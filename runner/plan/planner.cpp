// Asks fsdp-train --plan about runs. Equal runs are asked about once.
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
#include "runner/experiment/doubling_series.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// The longest that a sweep waits for a prediction. After that, the sweep asks for no more.
constexpr std::chrono::seconds kPatienceOfRuns{20};

// --- devices ---

// The device and node that a run is planned for.
struct DeviceForRuns {
  PlannedDevice device;
  PlannedHost host{};
  std::string name;  // "NVIDIA H100 80GB HBM3", "a GPU of 79 GiB (profile h100)", "the CPU"
};

int64_t bytes_of_gib(double gib) { return std::llround(gib * 0x1p30); }

// Returns the usable memory. CUDA provides less than the driver reports.
double usable_gib(const Gpu& gpu) {
  const double all = static_cast<double>(gpu.memory_bytes) / 0x1p30;
  const DeviceModel* model = device_table().device_of(gpu.name);
  return model ? std::min(all, model->memory_gib) : all;
}

// Returns the GPU. Does not set context_bytes.
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
    if (!model.driver_names.empty()) {
      there.device.name = is_among(model.driver_names, *name) ? *name : model.driver_names.front();
    }
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

DeviceForRuns device_for(const RunSpec& spec, const PlanTarget& target, const Expansion& expansion,
                         const std::optional<Host>& host) {
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

// --- notes about a run ---

std::optional<double> hours_of(const RunSpec& spec, const RunPlan& plan) {
  constexpr double kMillisecondsPerHour = 3.6e6;
  if (!is_calibrated(plan) || !spec.train.steps) return std::nullopt;
  const auto steps = static_cast<double>(planned_steps(spec, /*steps_per_epoch=*/1));
  return steps * *plan.step_time_ms / kMillisecondsPerHour;
}

// Returns a warning if the GPU is known to have no hardware for the run's precision. Empty: none.
std::string precision_note(const RunSpec& spec, const DeviceForRuns& device) {
  constexpr int64_t kFirstWithBf16 = 80;
  const int64_t capability = device.device.compute_capability;
  const bool has_bf16 = capability == 0 || capability >= kFirstWithBf16;
  if (has_bf16 || spec.precision.compute() != Dtype::kBf16) return "";
  return fmt::format(
      "{} has no hardware for bf16: its compute capability is {:.1f}, and bf16 needs 8.0. Products "
      "run there without tensor cores. Set precision: fp16_mixed.",
      device.device.name.empty() ? device.name : device.device.name,
      static_cast<double>(capability) / 10);
}

// Values of a key that do not fit, and the reasons: "" for memory, else the error of the value.
using TooLarge = std::map<int64_t, std::string>;

// Returns the smallest value that needs too much memory; nullopt if memory limits nothing.
std::optional<int64_t> limit_of_memory(const TooLarge& above) {
  const auto found = std::ranges::find(above, "", &TooLarge::value_type::second);
  return found == above.end() ? std::nullopt : std::optional(found->first);
}

// Returns a sentence about the largest value of `key` that fits. `problem` is the error, if any,
// for twice that value. Twice the value has the same divisors, so none of them is the reason.
std::string bound_note(const std::string& series, const std::string& key,
                       std::optional<int64_t> largest, const TooLarge& above,
                       const std::string& problem) {
  const std::string which = largest
                                ? fmt::format("{}: largest {} that fits: {}", series, key, *largest)
                                : fmt::format("{}: no value of {} fits", series, key);
  if (const auto value = limit_of_memory(above)) {
    return largest ? fmt::format("{} ({} does not).", which, *value)
                   : fmt::format("{}: {} {} does not fit.", series, key, *value);
  }
  const std::string& why = problem.empty() && !above.empty() ? above.begin()->second : problem;
  if (why.empty()) return which + ". The key allows no larger value.";
  return fmt::format("{}. The run allows no larger value, although memory may: {}.", which, why);
}

// Returns the largest value of `key` that is planned.
int64_t last_planned(const std::string& key, const RunSpec& spec) {
  const auto last = static_cast<int64_t>(range_of_key(key).maximum);
  const int64_t count = *spec.batch.gradient_accumulation_steps;
  const int64_t most = std::max(kMostPlannedMicroBatches, count);
  if (key == "batch.gradient_accumulation_steps") return std::min(last, most);
  return key == "batch.total" ? std::min(last, most * (total_batch(spec) / count)) : last;
}

// Returns the run with this value of `key`. Throws ConfigError if it cannot have the value.
Run run_with(const Expansion& expansion, const Run& run, const std::string& key, int64_t value) {
  return run.doubling && run.doubling->key() == key
             ? doubled_run(run.doubling, value)
             : expansion.variant(run, {fmt::format("{}={}", key, value)});
}

PlannedRow without_plan(const Run& run, const std::string& suffix, std::string problem) {
  return {.point = run.series + suffix,
          .spec = run.spec,
          .device = {},
          .plan = {},
          .problem = std::move(problem)};
}

}  // namespace

Resources planned_resources(const PlanTarget& target, const std::optional<Host>& host) {
  constexpr int64_t kAnyNumber = 1'000'000;
  Resources resources = host.value_or(Host()).resources;
  if (target.gpu) {
    resources.gpu_count = kAnyNumber;
    resources.gpu_memory_gib = device_table().find(*target.gpu).memory_gib;
    resources.source = ResourceSource::kPlannedGpu;
  }
  return resources;
}

ExperimentPlans::ExperimentPlans(const Expansion& expansion, std::optional<Host> host,
                                 PlanTarget target, const std::filesystem::path& trainer,
                                 const std::filesystem::path& results,
                                 std::chrono::seconds patience)
    : expansion_(expansion),
      host_(std::move(host)),
      target_(std::move(target)),
      results_(std::filesystem::absolute(results)),
      patience_(patience),
      trainer_({trainer.string(), "--plan"}, own_variables()) {
  std::signal(SIGPIPE, SIG_IGN);  // a trainer that has ended must not end this process
}

PlanRequest ExperimentPlans::request_for(const RunSpec& spec) const {
  const DeviceForRuns device = device_for(spec, target_, expansion_, host_);
  return {.specification = to_yaml(spec),
          .device = device.device,
          .host = device.host,
          .results = results_};
}

RunPlan ExperimentPlans::plan_spec(const RunSpec& spec, bool timeline) {
  PlanRequest request = request_for(spec);
  request.timeline = timeline;
  return answer_to(request);
}

RankTrace ExperimentPlans::trace_of(const RunSpec& spec) {
  PlanRequest request = request_for(spec);
  request.trace = true;
  RunPlan plan = answer_to(request);
  RankTrace trace{.memory = std::move(plan.memory)};
  if (!plan.trace.empty()) trace.steps.push_back({.step = 1, .spans = std::move(plan.trace)});
  return trace;
}

// Long answers are requested only once.
RunPlan ExperimentPlans::answer_to(const PlanRequest& request) {
  const std::string question = json_text(request);
  const bool is_long = request.timeline || request.trace;
  const auto known = answers_.find(question);
  const std::string text =
      known != answers_.end() ? known->second : trainer_.ask(question, patience_);
  if (!is_long) answers_[question] = text;
  PlanAnswer answer;
  JsonFields("the trainer's plan").read("", parse_foreign_json(text), answer);
  if (!answer.plan) throw ConfigError("", "", answer.error);
  return std::move(*answer.plan);
}

PlannedRow ExperimentPlans::plan(const Run& run, const std::string& suffix) {
  observer_(run.series + suffix);
  PlannedRow row = without_plan(run, suffix, "");
  try {
    const DeviceForRuns device = device_for(run.spec, target_, expansion_, host_);
    row.device = device.name;
    row.plan = plan_spec(run.spec);
    row.hours = hours_of(run.spec, *row.plan);
    if (std::string note = precision_note(run.spec, device); !note.empty()) {
      row.notes.push_back(std::move(note));
    }
  } catch (const ConfigError& error) {
    row.problem = error.what();
  }
  return row;
}

PlannedRow ExperimentPlans::plan_with(const Run& run, const std::vector<std::string>& set,
                                      const std::string& suffix) {
  try {
    return plan(expansion_.variant(run, set), suffix);
  } catch (const ConfigError& error) {
    return without_plan(run, suffix, error.what());
  }
}

PlannedRow ExperimentPlans::plan_value(const Run& run, const std::string& key, int64_t value,
                                       const std::string& suffix) {
  const bool is_in_name = run.doubling && run.doubling->key() == key;
  try {
    return plan(run_with(expansion_, run, key, value), is_in_name ? "" : suffix);
  } catch (const ConfigError& error) {
    return without_plan(run, suffix, error.what());
  }
}

PlannedRow ExperimentPlans::plan_largest(const Run& run, const std::string& key) {
  PlannedRow given = plan(run);
  if (!given.plan) return given;
  if (given.plan->fit == Fit::kUnknown) {
    throw ConfigError("--max", key,
                      fmt::format("needs to know how much memory there is; {}, or set "
                                  "memory_limit_gib",
                                  remedy_for_unknown_memory(run.spec)));
  }
  if (key.starts_with("lora.") && run.spec.method == Method::kFull) {
    given.notes.push_back(fmt::format("{}: method: full has no {}.", run.series, key));
    return given;
  }
  const auto row_of = [&](int64_t value) {
    return plan_value(run, key, value, fmt::format(" {}={}", key, value));
  };
  std::optional<PlannedRow> row_of_largest;
  TooLarge above;
  const int64_t last = last_planned(key, run.spec);
  const auto fits_at = [&](int64_t value) {
    if (value > last) return ValueFit::kTooLarge;
    PlannedRow row = row_of(value);
    const ValueFit fit = row.plan ? value_fit(*row.plan, row.spec, key) : ValueFit::kDoesNotFit;
    if (fit == ValueFit::kFits) {
      row_of_largest = std::move(row);
    } else {
      above[value] = row.problem;
    }
    return fit;
  };
  const NextValid next_valid = next_valid_by(
      [&](int64_t value) { run_with(expansion_, run, key, value); }, widest_gap(run.spec), last);
  std::optional<int64_t> largest;
  if (const auto first = next_valid(1)) {
    largest = largest_that_fits(Doubling({.from = *first, .to = {}, .refine = true}, next_valid),
                                fits_at);
  }
  above.erase(above.begin(), above.upper_bound(largest.value_or(0)));
  const auto with_room_at = [&](int64_t value) {
    const PlannedRow row = row_of(value);
    return row.plan && row.plan->fit == Fit::kFits ? ValueFit::kFits : ValueFit::kDoesNotFit;
  };
  std::string roomy;
  if (row_of_largest && row_of_largest->plan->fit == Fit::kTight) {
    const auto value = largest_that_fits(
        Doubling({.from = *next_valid(1), .to = *largest, .refine = true}, next_valid),
        with_room_at);
    roomy = value ? fmt::format(" The largest that is not tight: {}.", *value)
                  : " Every value that fits is tight.";
  }
  PlannedRow row = row_of_largest ? std::move(*row_of_largest) : row_of(1);
  const int64_t beyond = 2 * largest.value_or(1);
  if (!limit_of_memory(above) && beyond > last && last < range_of_key(key).maximum) {
    row.notes.push_back(fmt::format(
        "{}: {} {} fits. Larger values are not planned: a micro-batch more takes little more than "
        "its tokens.{}",
        run.series, key, largest.value_or(last), roomy));
    return row;
  }
  const std::string problem = limit_of_memory(above) ? "" : row_of(beyond).problem;
  row.notes.push_back(bound_note(run.series, key, largest, above, problem) + roomy);
  return row;
}

PlannedRow ExperimentPlans::plan_expected(const Run& run) {
  const std::optional<int64_t> largest =
      run.doubling->expected_largest([&](const RunSpec& spec) -> std::optional<RunPlan> {
        observer_(run.series);
        return plan_spec(spec);
      });
  return plan(largest ? doubled_run(run.doubling, *largest) : run);
}

void ExperimentPlans::add_timeline(PlannedRow& row) {
  if (row.plan) row.plan = plan_spec(row.spec, /*timeline=*/true);
}

RunPredictions::RunPredictions(const Expansion& expansion, std::optional<Host> host,
                               std::filesystem::path trainer, std::filesystem::path results)
    : start_([=, &expansion] {
        return std::make_unique<ExperimentPlans>(expansion, host, PlanTarget(), trainer, results,
                                                 kPatienceOfRuns);
      }) {}

std::optional<RunPlan> RunPredictions::predict(const RunSpec& spec) {
  if (has_given_up_) return std::nullopt;
  try {
    if (!plans_) plans_ = start_();
    return plans_->plan_spec(spec);
  } catch (const ConfigError& error) {
    log(LogLevel::kInfo, "prediction", error.what());
  } catch (const std::exception& error) {
    log(LogLevel::kInfo, "prediction", error.what());
    has_given_up_ = true;
    plans_.reset();
  }
  return std::nullopt;
}

std::vector<Run> first_repeats(const Expansion& expansion) {
  return only(expansion.runs, [](const Run& run) { return run.repeat == 0; });
}

}  // namespace fsdp
