// Plans changes of a run, and combinations that keep its result.
#include "runner/plan/suggestions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <span>
#include <utility>

#include "runner/table/number_text.h"

namespace fsdp {
namespace {

// Returns the changes that keep the method. Within a part, the least intrusive change is first.
std::span<const Change> changes() {
  using enum ChangedPart;
  static const std::array kChanges{
      Change{kRecomputation, "recompute nothing", "activation_checkpointing.every=0", ""},
      Change{kRecomputation, "recompute MLPs",
             "activation_checkpointing.every=1 activation_checkpointing.what=mlp",
             "computes the MLP's first product twice"},
      Change{kRecomputation, "recompute attention",
             "activation_checkpointing.every=1 activation_checkpointing.what=attention",
             "computes attention and the products before it twice"},
      Change{kRecomputation, "recompute blocks",
             "activation_checkpointing.every=1 activation_checkpointing.what=block",
             "computes every block's forward twice, up to a third more time"},
      Change{kSharding, "ddp", "strategy.kind=ddp", ""},
      Change{kSharding, "shard_grad_op", "strategy.kind=fsdp strategy.sharding=shard_grad_op",
             "parameters are gathered for each step"},
      Change{kSharding, "full_shard", "strategy.kind=fsdp strategy.sharding=full_shard",
             "parameters are gathered for each use"},
      Change{kOther, "sharded sums", "strategy.accumulate=sharded",
             "gradients are reduced every micro-batch"},
      Change{kOther, "step in backward", "optimizer.in_backward=true",
             "no clipping, and one micro-batch a step"},
      Change{kOther, "bf16 products", "precision=bf16_mixed", "products are rounded to bfloat16"},
      Change{kOther, "bf16 state", "optimizer.state_dtype=bf16",
             "the optimizer's state is rounded"},
      Change{kOther, "int8 state", "optimizer.state_dtype=int8",
             "the optimizer's state is rounded to 8 bits"},
      Change{kOther, "bf16 weights", "precision=bf16_true", "weights are rounded to bfloat16 too"},
      Change{kOffload, "offload nothing", "strategy.offload=none", ""},
      Change{kOffload, "offload optimizer", "strategy.offload=optimizer",
             "the CPU steps; gradients and parameters are copied"},
      Change{kOffload, "offload parameters", "strategy.offload=parameters",
             "as with offload optimizer, and parameters are copied for each use"}};
  return kChanges;
}

// Returns the methods that train less than the full model.
std::span<const Change> methods() {
  static const std::vector<Change> kMethods = [] {
    std::vector<Change> methods;
    for (const std::string_view name : enum_names(Method())) {
      if (name == name_of(Method::kFull)) continue;
      methods.push_back({ChangedPart::kMethod, name, fmt::format("method={}", name),
                         "adapters are trained in place of the model's parameters"});
    }
    return methods;
  }();
  return kMethods;
}

// The run with changes, at most one of each part. No changes: the run as it is.
struct Setting {
  std::vector<const Change*> changes;
  PlannedRow row;
};

std::vector<std::string> overrides_of(const std::vector<const Change*>& changes) {
  std::vector<std::string> set;
  for (const Change* change : changes) {
    for (const auto& part : std::views::split(change->set, ' ')) {
      set.emplace_back(part.begin(), part.end());
    }
  }
  return set;
}

std::string names_of(const std::vector<const Change*>& changes) {
  return fmt::format("{}", fmt::join(changes | std::views::transform(&Change::name), " + "));
}

Setting with_changes(ExperimentPlans& plans, const Run& run, std::vector<const Change*> changes) {
  const std::string suffix = changes.empty() ? "" : " + " + names_of(changes);
  PlannedRow row = plans.plan_with(run, overrides_of(changes), suffix);
  return {std::move(changes), std::move(row)};
}

// Returns all combinations of changes that keep the result, with at most one change of each part.
// The least intrusive combination is first.
std::vector<std::vector<const Change*>> choices_of_the_same_result(bool has_ranks) {
  std::vector<std::vector<const Change*>> choices{{}};
  for (const auto part :
       {ChangedPart::kOffload, ChangedPart::kSharding, ChangedPart::kRecomputation}) {
    if (part == ChangedPart::kSharding && !has_ranks) continue;
    const auto before = std::exchange(choices, {});
    for (const auto& choice : before) {
      choices.push_back(choice);
      for (const Change& change : changes()) {
        if (change.part != part) continue;
        choices.push_back(choice);
        choices.back().push_back(&change);
      }
    }
  }
  return choices;
}

bool fits(const RunPlan& plan) { return plan.fit != Fit::kDoesNotFit; }

// Returns the settings that fit and keep the result, the least intrusive first.
std::vector<Setting> settings_that_fit(ExperimentPlans& plans, const Run& run) {
  std::vector<Setting> settings;
  std::vector<RunSpec> seen;
  for (auto& choice : choices_of_the_same_result(run.spec.strategy.ranks > 1)) {
    Setting setting = with_changes(plans, run, std::move(choice));
    const RunSpec& spec = setting.row.spec;
    if (!setting.row.plan || std::ranges::find(seen, spec) != seen.end()) continue;
    seen.push_back(spec);
    if (fits(*setting.row.plan)) settings.push_back(std::move(setting));
  }
  return settings;
}

std::string description(const Setting& setting) {
  return setting.changes.empty() ? "as it is" : names_of(setting.changes);
}

// "3.20 GiB less, 12 % more time".
std::string compared(const RunPlan& plan, const RunPlan& to) {
  const double less =
      static_cast<double>(to.memory_device_bytes_max - plan.memory_device_bytes_max);
  std::string text =
      fmt::format("{} GiB {}", gibibytes(std::abs(less)), less < 0 ? "more" : "less");
  if (!is_calibrated(plan) || !is_calibrated(to)) return text;
  const double percent = 100 * (*plan.step_time_ms / *to.step_time_ms - 1);
  return text + (std::abs(percent) < 0.5 ? ", as much time"
                                         : fmt::format(", {:.0f} % {} time", std::abs(percent),
                                                       percent > 0 ? "more" : "less"));
}

// Returns the two fastest settings at most. Tight ones come after all others. Settings without a
// calibrated step time are left out.
std::vector<Setting> fastest_of(std::vector<Setting> settings) {
  std::erase_if(settings, [](const Setting& setting) { return !is_calibrated(*setting.row.plan); });
  std::ranges::stable_sort(settings, {}, [](const Setting& setting) {
    return std::pair(setting.row.plan->fit == Fit::kTight, *setting.row.plan->step_time_ms);
  });
  if (settings.size() > 2) settings.resize(2);
  return settings;
}

std::string remark_on_fastest(const std::vector<Setting>& fastest) {
  const RunPlan& plan = *fastest[0].row.plan;
  std::string remark = fmt::format("fastest{}: {}, {} ms a step, {} GiB{}",
                                   plan.fit == Fit::kUnknown ? "" : " that fits",
                                   description(fastest[0]), three_digits(plan.step_time_ms),
                                   gibibytes(static_cast<double>(plan.memory_device_bytes_max)),
                                   plan.fit == Fit::kTight ? ", tight" : "");
  if (fastest.size() == 1) return remark;
  return remark + fmt::format("; next: {}, {}", description(fastest[1]),
                              compared(*fastest[1].row.plan, plan));
}

// Returns a remark about a run that does not fit.
std::string remark_on_least(const Run& run, const RunPlan& given, const Setting* least) {
  if (least == nullptr) {
    return "does not fit with any of these changes; " + remedy_for(run.spec, given);
  }
  return fmt::format("does not fit; the least change that makes it fit: {}, {}",
                     description(*least), compared(*least->row.plan, given));
}

// Returns a setting for each of `changes` that alone saves memory. Leaves out changes that the
// device does not support well, unless the run itself has such a problem.
std::vector<Setting> changes_that_save(std::span<const Change> changes, ExperimentPlans& plans,
                                       const Run& run, const PlannedRow& of) {
  std::vector<Setting> settings;
  for (const Change& change : changes) {
    Setting setting = with_changes(plans, run, {&change});
    const auto& plan = setting.row.plan;
    const bool suits_device = setting.row.notes.empty() || !of.notes.empty();
    if (plan && suits_device && plan->memory_device_bytes_max < of.plan->memory_device_bytes_max) {
      settings.push_back(std::move(setting));
    }
  }
  return settings;
}

const Setting* first_that_fits(const std::vector<Setting>& settings) {
  const auto found = std::ranges::find_if(
      settings, [](const Setting& setting) { return fits(*setting.row.plan); });
  return found == settings.end() ? nullptr : &*found;
}

void add(Suggestions& suggestions, const Setting& setting) {
  if (std::ranges::find(suggestions.rows, setting.row.point, &PlannedRow::point) !=
      suggestions.rows.end()) {
    return;
  }
  suggestions.rows.push_back(setting.row);
  suggestions.rows.back().is_suggested = true;
  suggestions.rows.back().has_other_method = std::ranges::any_of(
      setting.changes, [](const Change* change) { return change->part == ChangedPart::kMethod; });
  suggestions.changes.insert(setting.changes.begin(), setting.changes.end());
}

}  // namespace

Suggestions suggestions_for(ExperimentPlans& plans, const Run& run) {
  Suggestions suggestions;
  const PlannedRow given_row = plans.plan(run);
  suggestions.rows.push_back(given_row);
  if (!given_row.plan) return suggestions;
  const RunPlan& given = *given_row.plan;
  const auto remark = [&](const std::string& text) {
    suggestions.remarks.push_back(fmt::format("{}: {}.", run.series, text));
  };
  const std::vector<Setting> saving = changes_that_save(changes(), plans, run, given_row);
  for (const Setting& setting : saving) add(suggestions, setting);
  if (fits(given) && !is_calibrated(given)) {
    remark(given.fit == Fit::kUnknown
               ? "the memory is not known; " + remedy_for_unknown_memory(run.spec)
               : "fits as it is");
    return suggestions;
  }
  const std::vector<Setting> fitting = settings_that_fit(plans, run);
  if (!fits(given)) {
    const Setting* alone = first_that_fits(saving);
    const Setting* least = alone != nullptr ? alone : first_that_fits(fitting);
    remark(remark_on_least(run, given, least));
    if (least != nullptr) add(suggestions, *least);
    for (const Setting& setting : changes_that_save(methods(), plans, run, given_row)) {
      add(suggestions, setting);
    }
  }
  const std::vector<Setting> fastest = fastest_of(fitting);
  if (!fastest.empty()) remark(remark_on_fastest(fastest));
  for (const Setting& setting : fastest) add(suggestions, setting);
  return suggestions;
}

std::vector<std::string> legend_of(const std::set<const Change*>& changes) {
  std::vector<std::string> lines;
  for (const Change* change : changes) {
    lines.push_back(fmt::format("{}: {}{}.", change->name, fmt::join(overrides_of({change}), ", "),
                                change->cost.empty() ? "" : fmt::format("; {}", change->cost)));
  }
  return lines;
}

}  // namespace fsdp
