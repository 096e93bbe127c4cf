// Prints plans as a table, JSON or a page.
#include "runner/plan/plan_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <stdexcept>

#include "base/text/json.h"
#include "base/text/utf8.h"
#include "runner/page/html_page.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

constexpr size_t kTextWidth = 80;

// --- the table ---

std::string in_words(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string gib(int64_t bytes) { return gibibytes(static_cast<double>(bytes)); }

// "openlm-research/open_llama_7b" or the folder's name; else "Llama".
std::string model_name(const ModelSpec& model) {
  for (const std::filesystem::path& part : model.source) {  // a hub's cache: models--OWNER--NAME
    std::string name = part.string();
    if (!name.starts_with("models--")) continue;
    name.erase(0, name.find("--") + 2);
    if (const size_t dashes = name.find("--"); dashes != std::string::npos) {
      name.replace(dashes, 2, "/");
    }
    return name;
  }
  if (!model.source.empty()) return model.source.filename();
  const std::string& architecture = model.config.architecture;
  return architecture.substr(0, architecture.find("For"));
}

// Returns the text of each row that has a plan, each text once.
template <typename TextOf>
std::vector<std::string> texts_of(const std::vector<PlannedRow>& rows, TextOf text_of) {
  return distinct(mapped(only(rows, [](auto& row) { return row.plan.has_value(); }), text_of));
}

// "1 and 4 ranks"
std::string ranks_text(const std::vector<PlannedRow>& rows) {
  const auto counts =
      texts_of(rows, [](const PlannedRow& row) { return std::to_string(row.spec.strategy.ranks); });
  return names_in_words(counts) + (counts == std::vector<std::string>{"1"} ? " rank" : " ranks");
}

// True unless the ranks of a node take more memory than the node has.
bool host_fits(const RunPlan& plan) {
  return plan.memory_node_bytes_max <=
         plan.memory_node_limit_bytes.value_or(plan.memory_node_bytes_max);
}

bool is_host_shown(const PlannedRow& row) {
  return row.spec.device == DeviceKind::kCpu || row.spec.strategy.offload != Offload::kNone ||
         !host_fits(*row.plan);
}

// Returns a note with the host memory that is needed. Empty unless a row shows host memory and the
// memory of its node is not known.
std::string host_memory_note(const std::vector<PlannedRow>& rows) {
  int64_t most_bytes = 0;
  for (const PlannedRow& row : rows) {
    if (!row.plan || !is_host_shown(row) || row.plan->memory_node_limit_bytes) continue;
    most_bytes = std::max(most_bytes, row.plan->memory_node_bytes_max);
  }
  if (most_bytes == 0) return "";
  return fmt::format(
      "Host memory: up to {} GiB of a node, not compared with what a node has; "
      "--host-memory-gib N compares it.",
      gib(most_bytes));
}

// Returns a note with estimated step times of uncalibrated rows. Empty: there are none.
std::string uncalibrated_note(const std::vector<PlannedRow>& rows) {
  std::vector<double> times;
  for (const PlannedRow& row : rows) {
    if (row.plan && row.plan->step_time_ms && !is_calibrated(*row.plan)) {
      times.push_back(*row.plan->step_time_ms);
    }
  }
  if (times.empty()) return "";
  const auto [least, most] = std::ranges::minmax(times);
  return fmt::format(
      "Without a calibration, the estimate for a step is about {}, whatever the strategy.",
      range_text(duration(least), duration(most)));
}

// Returns the bytes that a rank takes beyond those that there are.
int64_t excess_bytes(const RunPlan& plan) {
  const int64_t device_bytes = plan.memory_device_bytes_max;
  const int64_t of_device = device_bytes - plan.memory_limit_bytes.value_or(device_bytes);
  if (host_fits(plan)) return of_device;
  const int64_t ranks = plan.memory_node_bytes_max / plan.memory_host_bytes_max;
  const int64_t of_node = plan.memory_node_bytes_max - *plan.memory_node_limit_bytes;
  return std::max(of_device, (of_node + ranks - 1) / ranks);
}

// Returns uses of memory and their bytes, the largest first.
std::vector<std::pair<MemoryUse, int64_t>> largest_uses(const MemoryByUse& by_use) {
  std::vector<std::pair<MemoryUse, int64_t>> uses;
  for (size_t i = 0; i < kMemoryUses; ++i) {
    const auto use = static_cast<MemoryUse>(i);
    if (by_use[use] > 0) uses.emplace_back(use, by_use[use]);
  }
  std::ranges::stable_sort(uses, std::ranges::greater(), &std::pair<MemoryUse, int64_t>::second);
  return uses;
}

// Returns the largest parts of the peak: "optimizer state 25.1 GiB, parameters 12.6 GiB".
std::string composition_text(const MemoryByUse& by_use) {
  const auto text = [](const auto& use) {
    return fmt::format("{} {} GiB", in_words(name_of(use.first)), gib(use.second));
  };
  return joined_texts(mapped(largest_uses(by_use) | std::views::take(3), text), ", ");
}

std::vector<Column> plan_columns() {
  return {{.heading = "Point",
           .documentation = "The run.",
           .is_left = true,
           .least = 12,
           .first_cut_to = 26},
          {.heading = "Ranks", .documentation = "Processes.", .drop_order = 6},
          {.heading = "Batch",
           .documentation = "Sequences of a rank's micro-batch x micro-batches.",
           .drop_order = 5},
          {.heading = "Trained",
           .documentation = "Parameters that are trained; -: all.",
           .when_known = true,
           .drop_order = 5},
          {.heading = "Allocated\n[GiB]",
           .documentation = "The peak of the memory that tensors take.",
           .drop_order = 8},
          {.heading = "Device\n[GiB]",
           .documentation = "The memory that the device needs: what the allocator keeps for "
                            "these tensors, CUDA's context, NCCL's buffers."},
          {.heading = "Limit\n[GiB]", .documentation = "The memory there is.", .when_known = true},
          {.heading = "Host\n[GiB]",
           .documentation = "The host's memory that all ranks of a node take; -: nothing is "
                            "offloaded, and it fits.",
           .when_known = true,
           .drop_order = 7},
          {.heading = "Step\n[ms]",
           .documentation = "Time of a step; -: not calibrated.",
           .when_known = true},
          {.heading = "Exposed\n[ms]",
           .documentation = "Part of the step in which compute waits for other ranks or the host.",
           .when_known = true,
           .drop_order = 1},
          {.heading = "MFU\n[%]",
           .documentation = "How much of the device's peak the model's products use.",
           .when_known = true,
           .drop_order = 2},
          {.heading = "Time\n[h]",
           .documentation = "Hours that the run's steps take.",
           .when_known = true,
           .drop_order = 8},
          {.heading = "Cost",
           .documentation = "Of the run: hours x ranks x --price.",
           .when_known = true},
          {.heading = "Fits", .documentation = "tight: above 85 % of the limit.", .is_left = true},
          {.heading = "Fullest in",
           .documentation = "When the peak is: the part of the step, and the unit of the model.",
           .is_left = true,
           .drop_order = 3},
          {.heading = "Mostly",
           .documentation = "What takes the largest part of the peak.",
           .is_left = true,
           .drop_order = 4}};
}

// Returns a cell per column. "-": not known.
std::vector<Cell> cells_of(const PlannedRow& row) {
  const std::string ranks = std::to_string(row.spec.strategy.ranks);
  const std::string batch = fmt::format("{} x {}", row.spec.batch.size_per_rank,
                                        row.spec.batch.gradient_accumulation_steps.value_or(1));
  if (!row.plan) {
    std::vector<Cell> cells{visible_line(row.point), ranks, batch};
    cells.resize(plan_columns().size(), "-");
    return cells;
  }
  const RunPlan& plan = *row.plan;
  const auto uses = largest_uses(plan.peak.by_use);
  return {visible_line(row.point),
          ranks,
          batch,
          row.spec.method == Method::kFull
              ? "-"
              : short_count(static_cast<double>(plan.trained_parameter_count)),
          gib(plan.memory_allocated_bytes_max),
          gib(plan.memory_device_bytes_max),
          plan.memory_limit_bytes ? gib(*plan.memory_limit_bytes) : "-",
          is_host_shown(row) ? gib(plan.memory_node_bytes_max) : "-",
          is_calibrated(plan) ? three_digits(plan.step_time_ms) : "-",
          three_digits(plan.communication_exposed_ms),
          is_calibrated(plan) ? three_digits(plan.mfu_percent) : "-",
          three_digits(row.hours),
          three_digits(row.cost),
          fit_text(plan.fit),
          plan.peak.moment(),
          uses.empty() ? "-" : in_words(name_of(uses.front().first))};
}

// Returns two lines: profile, model, parameters, ranks and device; why this profile was taken.
// Empty if no row has a plan.
std::vector<std::string> heading_of(const PlanReport& report) {
  std::vector<std::string> lines;
  const auto models = texts_of(report.rows, [](const PlannedRow& row) {
    return visible_line(fmt::format("{} {}", model_name(row.spec.model),
                                    short_count(static_cast<double>(row.plan->parameter_count))));
  });
  if (models.empty()) return lines;
  const auto devices =
      texts_of(report.rows, [](const PlannedRow& row) { return visible_line(row.device); });
  lines.push_back(
      fmt::format("{}{} on {}, planned for {}.",
                  report.profile.empty() ? "" : "Profile " + visible_line(report.profile) + ": ",
                  names_in_words(models), ranks_text(report.rows), fmt::join(devices, " or ")));
  if (!report.profile_reason.empty()) {
    lines.push_back("Why this profile: " +
                    visible_line(report.profile_reason.substr(report.profile.size() + 2)) + ".");
  }
  return lines;
}

// Returns why rows do not fit, the rows' notes and the assumptions, each once.
std::vector<std::string> notes_of(const std::vector<PlannedRow>& rows) {
  std::vector<std::string> notes;
  std::map<std::string, std::vector<std::string>> without_plan;  // points, by problem
  for (const PlannedRow& row : rows) {
    if (!row.plan) {
      without_plan[row.problem].push_back(row.point);
    } else if (row.plan->fit == Fit::kDoesNotFit && !row.is_suggested) {
      const std::string why = host_fits(*row.plan) ? composition_text(row.plan->peak.by_use) +
                                                         " at " + row.plan->peak.moment()
                                                   : excess_text(*row.plan);
      notes.push_back(fmt::format("{}: {}; {}.", row.point, why, remedy_for(row.spec, *row.plan)));
    }
    std::ranges::copy(row.notes, std::back_inserter(notes));
    if (!row.plan) continue;
    for (const std::string& assumption : row.plan->assumptions) {
      notes.push_back("Assumption: " + assumption + ".");
    }
  }
  notes.push_back(host_memory_note(rows));
  notes.push_back(uncalibrated_note(rows));
  for (const auto& [problem, points] : without_plan) {
    notes.push_back(fmt::format("No plan for {}: {}", fmt::join(points, ", "), problem));
  }
  std::erase(notes, "");
  return distinct(mapped(notes, visible_line));
}

// --- the formats ---

Table with_remarks(Table table, const PlanReport& report) {
  for (const std::string& remark : report.remarks) table.notes.push_back(visible_line(remark));
  return table;
}

std::string json_of(const PlanReport& report) {
  std::vector<JsonObject> objects;
  for (const PlannedRow& row : report.rows) {
    JsonObject& object = objects.emplace_back();
    object.add("point", row.point).add("profile", report.profile);
    object.add("ranks", row.spec.strategy.ranks).add("device", row.device);
    if (row.plan) object.add_fields(*row.plan);
    object.add("fits", row.plan && row.plan->fit != Fit::kUnknown
                           ? std::optional(row.plan->fit != Fit::kDoesNotFit)
                           : std::nullopt);
    object.add("hours", row.hours).add("cost", row.cost);
    object.add("problem", row.problem).add("notes", row.notes);
  }
  return json_text(objects) + '\n';
}

JsonObject column_data(const Column& column) {
  return JsonObject()
      .add("heading", column.heading)
      .add("documentation", column.documentation)
      .add("right", !column.is_left);
}

JsonObject run_data(const PlannedRow& row) {
  JsonObject data;
  data.add("name", row.point);
  if (row.plan) data.add("plan", *row.plan);
  return data.add("cells", mapped(cells_of(row), &Cell::text));
}

// Returns the page. html/plan.js reads its data.
std::string page_of(const PlanReport& report) {
  const Table table = plan_table(report);
  return html_page({.title = "Plan of " + report.experiment,
                    .sections = kPlanSections,
                    .script = kPlanScript,
                    .data = JsonObject()
                                .add("columns", mapped(table.columns, column_data))
                                .add("runs", mapped(report.rows, run_data))
                                .add("heading", table.blocks.front().introduction)
                                .add("notes", table.notes)
                                .add("remarks", report.remarks)
                                .text()});
}

}  // namespace

bool is_calibrated(const RunPlan& plan) { return plan.communication_exposed_ms.has_value(); }

std::string excess_text(const RunPlan& plan) {
  if (host_fits(plan)) {
    return fmt::format("{} of {}", gibibytes_text(plan.memory_device_bytes_max),
                       gibibytes_text(*plan.memory_limit_bytes));
  }
  return fmt::format("{} of {} of a node's memory", gibibytes_text(plan.memory_node_bytes_max),
                     gibibytes_text(*plan.memory_node_limit_bytes));
}

std::string fit_text(Fit fit) { return fit == Fit::kUnknown ? "?" : in_words(name_of(fit)); }

Table plan_table(const PlanReport& report) {
  Table table{.columns = plan_columns(),
              .blocks = {Block{.introduction = heading_of(report)}},
              .notes = notes_of(report.rows)};
  for (const PlannedRow& row : report.rows) {
    if (!row.has_other_method) table.add(cells_of(row));
  }
  if (std::ranges::any_of(report.rows, &PlannedRow::has_other_method)) {
    table.blocks.push_back({.title = "Other methods: they change what is trained, not only how"});
  }
  for (const PlannedRow& row : report.rows) {
    if (row.has_other_method) table.add(cells_of(row));
  }
  return table;
}

std::string remedy_for_unknown_memory(const RunSpec& spec) {
  return spec.device == DeviceKind::kCuda ? "name the GPU with --gpu"
                                          : "give --host-memory-gib, or set slurm.mem";
}

std::string remedy_for(const RunSpec& spec, const RunPlan& plan) {
  if (!host_fits(plan) && spec.device != DeviceKind::kCpu) {
    return spec.strategy.offload == Offload::kNone
               ? "use fewer ranks on a node, or nodes with more memory (slurm.mem)"
               : "offload less (strategy.offload), shard over more nodes, or take nodes with more "
                 "memory (slurm.mem)";
  }
  const MemoryByUse& by_use = plan.peak.by_use;
  const int64_t state = by_use[MemoryUse::kParameters] + by_use[MemoryUse::kGradients] +
                        by_use[MemoryUse::kOptimizerState];
  const int64_t saved =
      by_use[MemoryUse::kAttention] + by_use[MemoryUse::kMlp] + by_use[MemoryUse::kHidden];
  const bool has_ranks = spec.strategy.ranks > 1;
  const bool is_sharded =
      spec.strategy.kind == StrategyKind::kFsdp && spec.strategy.sharding == Sharding::kFullShard;
  const bool is_recomputed = spec.activation_checkpointing.every == 1 &&
                             spec.activation_checkpointing.what == CheckpointedPart::kBlock;
  const bool is_beside_device = spec.device != DeviceKind::kCpu || host_fits(plan);
  const int64_t excess = excess_bytes(plan);
  const bool suffices_sharded = is_beside_device || state - state / spec.strategy.ranks >= excess;
  if (state >= saved && has_ranks && !is_sharded && suffices_sharded) {
    return fmt::format(
        "shard parameters, gradients and optimizer state over the {} ranks: strategy.kind: fsdp, "
        "strategy.sharding: full_shard",
        spec.strategy.ranks);
  }
  if (state >= saved && spec.strategy.offload == Offload::kNone && is_beside_device) {
    const int64_t without_state = plan.memory_device_bytes_max - by_use[MemoryUse::kOptimizerState];
    const bool suffices = without_state <= plan.memory_limit_bytes.value_or(without_state);
    if (has_ranks) {
      return std::string("use more ranks, or strategy.offload: ") +
             (suffices ? "optimizer" : "parameters");
    }
    return suffices ? "keep optimizer state on the host: strategy.offload: optimizer"
                    : "keep parameters, gradients and optimizer state on the host: "
                      "strategy.kind: fsdp, strategy.offload: parameters";
  }
  if (state < saved && !is_recomputed && saved >= excess) {
    return "recompute activations: activation_checkpointing.every: 1";
  }
  if (plan.memory_requested_bytes_max - state < excess) {  // a smaller batch does not suffice
    if (!is_beside_device) {
      return fmt::format("give the run more memory (slurm.mem, or the limit of this job){}",
                         has_ranks ? ", or use fewer ranks on a node" : "");
    }
    return fmt::format("use {}a smaller model{}", has_ranks ? "more ranks, or " : "",
                       spec.method == Method::kFull ? ", or train adapters (method: lora)" : "");
  }
  return has_ranks ? "use fewer sequences per rank, shorter ones, or more ranks"
                   : "use fewer sequences per rank, or shorter ones";
}

std::string render_plans(PlanFormat format, const PlanReport& report, size_t width) {
  switch (format) {
    case PlanFormat::kTable:
      return table_text(with_remarks(plan_table(report), report),
                        {.width = width, .text_width = kTextWidth});
    case PlanFormat::kMarkdown:
      return table_markdown(with_remarks(plan_table(report), report));
    case PlanFormat::kJson:
      return json_of(report);
    case PlanFormat::kHtml:
      return page_of(report);
  }
  throw std::logic_error("not a format of plans");
}

}  // namespace fsdp
