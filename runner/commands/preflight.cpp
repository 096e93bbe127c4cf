#include "runner/commands/preflight.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "contract/families/family.h"
#include "contract/inputs/inputs.h"
#include "contract/spec/yaml_value.h"
#include "contract/text/utf8.h"
#include "runner/cluster/request.h"
#include "runner/commands/queue_check.h"
#include "runner/commands/run_sizes.h"
#include "runner/plan/plan_cells.h"
#include "runner/report/names.h"
#include "runner/report/number_text.h"
#include "runner/report/speeds.h"
#include "runner/report/text_table.h"

namespace fsdp {
namespace {

using RunNames = std::vector<std::string>;

constexpr size_t kMostCheckedRuns = 24;  // of a screen

std::vector<const Run*> first_repeats(const Preflight& preflight) {
  std::vector<const Run*> runs;
  for (const Run& run : preflight.expansion.runs) {
    if (run.repeat == 0) runs.push_back(&run);
  }
  return runs;
}

// --- the table ---

constexpr size_t kSequences = 6;
constexpr size_t kParameters = 7;

std::vector<TextColumn> preflight_columns() {
  return {{.heading = "Point", .is_left = true, .least = 12, .first_cut_to = 28},
          {.heading = "Strategy", .is_left = true, .leaves = 5},
          {.heading = "Ranks", .leaves = 7},
          {.heading = "Batch", .leaves = 6},
          {.heading = "Total\nbatch"},
          {.heading = "Steps"},
          {.heading = "Sequences", .when_known = true, .leaves = 3},
          {.heading = "Para-\nmeters", .when_known = true, .leaves = 4},
          {.heading = "Parameters+\ngradients+state [GiB]", .leaves = 2},
          {.heading = "Memory\n[GiB]", .when_known = true},
          {.heading = "Fits", .is_left = true, .when_known = true},
          {.heading = "Checkpoints\n[GiB]", .when_known = true, .leaves = 1}};
}

std::string strategy_text(const StrategySpec& strategy) {
  return std::string(name_of(strategy.kind)) +
         (strategy.offload == Offload::kNone ? "" : "+offload");
}

std::string sequences_text(const RunSpec& spec) {
  if (!spec.train.steps) return "-";
  return fmt::format(
      "{:.0f}", static_cast<double>(*spec.train.steps) * static_cast<double>(total_batch(spec)));
}

std::string parameters_text(const RunSpec& spec) {
  return short_count(parameter_count(model_config(spec)));
}

// "0.0245+0.0245+0.0489", "0.0245+0.0245+host"
std::string kept_text(const RunSpec& spec) {
  const KeptBytes kept = kept_bytes(spec);
  const Offload offload = spec.strategy.offload;
  return fmt::format("{}+{}+{}",
                     offload == Offload::kParameters ? "host" : gibibytes(kept.parameters),
                     gibibytes(kept.gradients),
                     offload == Offload::kNone ? gibibytes(kept.optimizer_state) : "host");
}

// Returns the text that all runs have in common, shown once below the table; empty: they differ.
std::string in_common(const std::vector<const Run*>& runs,
                      std::string (*text_of)(const RunSpec& spec)) {
  const std::string text = text_of(runs.front()->spec);
  const auto is_so = [&](const Run* run) { return text_of(run->spec) == text; };
  return runs.size() > 1 && std::ranges::all_of(runs, is_so) ? text : "";
}

std::vector<std::string> cells_of_run(const Run& run, const PlannedRow* planned) {
  const RunSpec& spec = run.spec;
  const std::optional<int64_t>& steps = spec.train.steps;
  const RunPlan* plan = planned && planned->plan ? &*planned->plan : nullptr;
  const double disk = bytes_on_disk(spec);
  return {visible_line(run.series),
          strategy_text(spec.strategy),
          std::to_string(spec.strategy.ranks),
          fmt::format("{}x{}", spec.batch.size_per_rank, accumulation(spec)),
          std::to_string(total_batch(spec)),
          steps ? std::to_string(*steps) : "-",
          sequences_text(spec),
          parameters_text(spec),
          kept_text(spec),
          plan ? gibibytes(static_cast<double>(plan->memory_device_bytes_max)) : "-",
          plan ? fit_text(plan->fit) : "-",
          disk > 0 ? gibibytes(disk) : "-"};
}

// --- warnings ---

using RunFilter = bool (*)(const Preflight&, const RunSpec&);

RunNames names_where(const Preflight& preflight, RunFilter holds) {
  RunNames names;
  for (const Run* run : first_repeats(preflight)) {
    if (holds(preflight, run->spec)) names.push_back(visible_line(run->series));
  }
  return names;
}

std::string crowded(const Preflight& preflight) {
  const RunNames names = names_where(preflight, [](const Preflight& all, const RunSpec& spec) {
    return !all.on_cluster && spec.device == DeviceKind::kCpu &&
           spec.strategy.ranks > all.host.cpu_cores;
  });
  if (names.empty()) return "";
  return fmt::format(
      "{}: more ranks than this host's {}; their times say how they share these, not how they "
      "scale",
      joined_names(names), counted(preflight.host.cpu_cores, "core"));
}

std::string few_measured_steps(const Preflight& preflight) {
  const RunNames names = names_where(preflight, [](const Preflight&, const RunSpec& spec) {
    return spec.train.steps &&
           static_cast<double>(*spec.train.steps - spec.train.warmup_steps_excluded) <
               kLeastMeasuredSteps;
  });
  if (names.empty()) return "";
  return fmt::format(
      "{}: step times will be of fewer than {} steps after the warm-up; raise "
      "train.steps",
      joined_names(names), kLeastMeasuredSteps);
}

// Returns "4: 1 GPU; 16: 4xDDP, 4xFSDP" if runs differ in this value, which their losses depend on.
template <typename Of>
std::string unequal(const Preflight& preflight, const char* what, const char* remedy, Of of) {
  if (preflight.compare == Comparison::kThroughput) return "";
  std::map<int64_t, RunNames> by_value;
  for (const Run* run : first_repeats(preflight)) {
    if (const std::optional<int64_t> value = of(run->spec)) {
      by_value[*value].push_back(visible_line(run->series));
    }
  }
  if (by_value.size() < 2) return "";
  std::vector<std::string> texts;
  for (const auto& [value, names] : by_value) {
    texts.push_back(fmt::format("{}: {}", value, joined_names(names)));
  }
  return fmt::format(
      "{} differ ({}), so losses cannot be compared; {}, or write compare: throughput at the top "
      "if that is meant",
      what, fmt::join(texts, "; "), remedy);
}

std::string ids_of_another_tokenizer(const Preflight& preflight) {
  const RunNames names = names_where(preflight, [](const Preflight&, const RunSpec& spec) {
    return spec.data.kind == DataKind::kChess && spec.data.tokenizer.empty() &&
           !spec.model.source.empty();
  });
  if (names.empty()) return "";
  return joined_names(names) +
         ": the shipped chess data has a tokenizer of its own, whose ids mean other words to a "
         "pretrained model; name the model's with data.tokenizer";
}

std::string no_room_on_disk(const Preflight& preflight) {
  double bytes = 0;
  for (const Run& run : preflight.expansion.runs) bytes += bytes_on_disk(run.spec);
  std::filesystem::path place = std::filesystem::absolute(preflight.results);
  std::error_code unknown;
  while (!std::filesystem::exists(place, unknown) && place.has_relative_path()) {
    place = place.parent_path();
  }
  const std::filesystem::space_info room = std::filesystem::space(place, unknown);
  if (unknown || bytes <= static_cast<double>(room.available)) return "";
  return fmt::format(
      "checkpoints will take {} GiB, and {} has {} GiB left; see checkpoint.keep, or choose "
      "another "
      "folder with --results",
      gibibytes(bytes), visible_line(place.string()),
      gibibytes(static_cast<double>(room.available)));
}

std::string oversized(const PlannedRow& row) {
  if (!row.plan || row.plan->fit != Fit::kDoesNotFit) return "";
  return visible_line(fmt::format("{} is predicted not to fit: {} on {}; {}", row.point,
                                  excess_text(*row.plan), row.device,
                                  remedy_for(row.spec, *row.plan)));
}

// Returns the time limit of a job.
std::string time_text(const SlurmSpec& slurm) {
  return slurm.time.empty() ? "for the partition's time limit" : "for at most " + slurm.time;
}

std::string job_text(const SlurmRequest& request) {
  const std::string nodes = counted(request.nodes, "node");
  if (request.gpus_per_node == 0) {
    return fmt::format("{} with {}", nodes, counted(request.ranks_per_node, "rank"));
  }
  return fmt::format("{} with {}", nodes, counted(request.gpus_per_node, "GPU"));
}

}  // namespace

std::vector<std::string> preflight_table(const Preflight& preflight, size_t width) {
  const std::vector<const Run*> runs = first_repeats(preflight);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(runs.size(), kMostCheckedRuns); ++i) {
    rows.push_back(
        cells_of_run(*runs[i], i < preflight.plans.size() ? &preflight.plans[i] : nullptr));
  }
  std::string common;
  for (const auto& [column, name, text_of] :
       {std::tuple(kSequences, "sequences", &sequences_text),
        std::tuple(kParameters, "parameters", &parameters_text)}) {
    const std::string text = in_common(runs, text_of);
    if (text.empty() || text == "-") continue;
    for (auto& row : rows) row[column] = "-";
    common += fmt::format("{}{} {}", common.empty() ? "Each run: " : ", ", text, name);
  }
  const TextTable table = laid_out(preflight_columns(), std::move(rows), width);
  std::vector<std::string> lines = table.heading;
  lines.push_back(table.rule);
  lines.insert(lines.end(), table.rows.begin(), table.rows.end());
  if (runs.size() > kMostCheckedRuns)
    lines.push_back(fmt::format("and {} more", runs.size() - kMostCheckedRuns));
  if (!common.empty()) lines.push_back(common);
  return lines;
}

std::string request_line(const Preflight& preflight) {
  if (!preflight.on_cluster || preflight.expansion.runs.empty()) return "";
  const std::vector<Run>& runs = preflight.expansion.runs;
  std::vector<SlurmRequest> requests;
  for (const Run& run : runs) requests.push_back(slurm_request(run.spec));
  const SlurmSpec& slurm = runs.front().spec.slurm;
  if (slurm.mode == SlurmMode::kAllocation) {
    return fmt::format("Slurm: one job for all runs, {}, {}", job_text(largest(requests)),
                       time_text(slurm));
  }
  const auto arrays = arrays_of(runs);
  std::vector<std::string> texts;
  for (const auto& [run, count] : arrays) {
    texts.push_back(fmt::format("{} on {}, each {}", counted(count, "task"),
                                job_text(slurm_request(run->spec)), time_text(run->spec.slurm)));
  }
  return fmt::format("Slurm: {} in {}: {}", counted(std::ssize(runs), "job"),
                     counted(std::ssize(arrays), "array"), fmt::join(texts, "; "));
}

std::vector<std::string> preflight_warnings(const Preflight& preflight) {
  std::vector<std::string> warnings{
      unequal(preflight, "total batches", "give all runs one batch.total",
              [](const RunSpec& spec) { return std::optional(total_batch(spec)); }),
      unequal(preflight, "numbers of steps", "give all runs the same train.steps",
              [](const RunSpec& spec) { return spec.train.steps; }),
      ids_of_another_tokenizer(preflight),
      few_measured_steps(preflight),
      crowded(preflight),
      no_room_on_disk(preflight)};
  std::ranges::transform(preflight.plans, std::back_inserter(warnings), oversized);
  for (const PlannedRow& row : preflight.plans) {
    for (const std::string& note : row.notes) {
      if (std::ranges::find(warnings, note) == warnings.end()) warnings.push_back(note);
    }
  }
  std::erase(warnings, "");
  return warnings;
}

}  // namespace fsdp
