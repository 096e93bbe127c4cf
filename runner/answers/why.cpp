// Explains differences of time and memory by parts. The printed parts add up to the measured
// figure.
#include "runner/answers/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "runner/answers/facts.h"
#include "runner/series/speeds.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

// Parts below this fraction of the largest change are told together.
constexpr double kSmallPart = 0.05;

// The most parts that are told one by one in a sentence.
constexpr size_t kMostParts = 5;

// A part of a step for people: one or two parts of the account.
struct TimeGroup {
  const char* name;
  TimePart forward;
  TimePart backward;  // equal to `forward`: the part has no backward
};
constexpr TimeGroup kTimeGroups[] = {
    {"products", TimePart::kProductsForward, TimePart::kProductsBackward},
    {"attention", TimePart::kAttentionForward, TimePart::kAttentionBackward},
    {"other kernels", TimePart::kKernelsForward, TimePart::kKernelsBackward},
    {"all-gathers that nothing hides", TimePart::kAllGatherForward, TimePart::kAllGatherBackward},
    {"reduce-scatters that nothing hides", TimePart::kReduceScatter, TimePart::kReduceScatter},
    {"all-reduces that nothing hides", TimePart::kAllReduce, TimePart::kAllReduce},
    {"waits for slower ranks", TimePart::kSlowerRanks, TimePart::kSlowerRanks},
    {"copies", TimePart::kCopies, TimePart::kCopies},
    {"conversions", TimePart::kConversion, TimePart::kConversion},
    {"optimizer", TimePart::kOptimizer, TimePart::kOptimizer},
    {"gradient norm", TimePart::kClipping, TimePart::kClipping},
    {"data", TimePart::kData, TimePart::kData},
    {"other work", TimePart::kOther, TimePart::kOther},
};

// Returns the time of products and attention. Plans do not know it: a calibration times whole
// modules.
double time_of_products(const TimeByPart& time) {
  using enum TimePart;
  return time[kProductsForward] + time[kProductsBackward] + time[kAttentionForward] +
         time[kAttentionBackward];
}

// Adds products and attention to the other kernels.
TimeByPart with_all_kernels(TimeByPart time) {
  using enum TimePart;
  for (const auto part :
       {kProductsForward, kAttentionForward, kProductsBackward, kAttentionBackward}) {
    const bool is_forward = in_backward(part) != part;
    time[is_forward ? kKernelsForward : kKernelsBackward] += std::exchange(time[part], 0);
  }
  return time;
}

double time_of(const TimeGroup& group, const TimeByPart& time) {
  return time[group.forward] + (group.backward == group.forward ? 0 : time[group.backward]);
}

// Returns the number of decimals that gives `figure` two digits, but at least `least`.
int decimals_for(double figure, int least) {
  if (figure == 0) return least;
  const double size = std::max(std::abs(figure), 1e-6);
  return std::clamp(1 - static_cast<int>(std::floor(std::log10(size))), least, 6);
}

// "+0.45"; "0" if nothing of it is printed.
std::string signed_text(double figure, int digits) {
  const std::string text = fmt::format("{:+.{}f}", figure, digits);
  return text.find_first_of("123456789") == std::string::npos ? "0" : text;
}

std::string name_of(const TimeGroup& group, const TimeByPart& time) {
  const bool is_all = group.forward == TimePart::kKernelsForward && time_of_products(time) == 0;
  return is_all ? "computation" : group.name;
}

// Returns the name of a group's change: "all-gathers that nothing hides (backward 33, forward 8)".
std::string name_with_passes(const TimeGroup& group, const TimeByPart& run,
                             const TimeByPart& baseline, double total) {
  const int digits = decimals_for(total, 0);
  const bool has_passes = group.forward == TimePart::kAllGatherForward;
  if (!has_passes) return name_of(group, run);
  return fmt::format("{} (backward {}, forward {})", group.name,
                     signed_text(run[group.backward] - baseline[group.backward], digits),
                     signed_text(run[group.forward] - baseline[group.forward], digits));
}

void sort_by_size(Parts& parts) {
  std::ranges::stable_sort(parts, std::greater(), [](auto& part) { return std::abs(part.second); });
}

// Fills in what the parts do not explain.
FigureChange with_rest(FigureChange change) {
  change.unexplained = change.total;
  for (const auto& [name, part] : change.parts) change.unexplained -= part;
  sort_by_size(change.parts);
  return change;
}

const char* words_of(MemoryUse use, bool is_sharded) {
  switch (use) {
    case MemoryUse::kParameters:
      return "parameters";
    case MemoryUse::kWhole:
      return is_sharded ? "gathered units" : "converted parameters";
    case MemoryUse::kGradients:
      return "gradients";
    case MemoryUse::kOptimizerState:
      return "optimizer state";
    case MemoryUse::kAttention:
      return "activations of attention";
    case MemoryUse::kMlp:
      return "activations of MLPs";
    case MemoryUse::kHidden:
      return "other activations";
    case MemoryUse::kHead:
      return "head";
    case MemoryUse::kActivationGradients:
      return "gradients of activations";
    case MemoryUse::kBatch:
      return "tokens";
    case MemoryUse::kOther:
      break;
  }
  return "other memory";
}

// "+62 ms a step = +41 optimizer, +22 other parts, -1 unexplained". Sums are of the printed
// figures, in `unit` and with at least `least` decimals.
std::string change_text(const FigureChange& change, double unit, int least) {
  const int digits = decimals_for(change.total / unit, least);
  const double ten = std::pow(10, digits);
  const auto rounded = [&](double value) { return std::round(value / unit * ten) / ten; };
  double largest = std::abs(change.total);
  for (const auto& [part, more] : change.parts) largest = std::max(largest, std::abs(more));
  double rest = rounded(change.total);
  std::vector<std::string> texts;
  for (const auto& [part, more] : change.parts) {
    const bool is_small = std::abs(more) < kSmallPart * largest || rounded(more) == 0;
    if (is_small || texts.size() == kMostParts) continue;
    texts.push_back(fmt::format("{} {}", signed_text(rounded(more), digits), part));
    rest -= rounded(more);
  }
  const double unexplained =
      std::abs(change.unexplained) < kSmallPart * largest ? 0 : rounded(change.unexplained);
  rest = std::round((rest - unexplained) * ten) / ten;
  if (rest != 0) texts.push_back(signed_text(rest, digits) + " other parts");
  if (unexplained != 0) texts.push_back(signed_text(unexplained, digits) + " unexplained");
  const std::string parts = texts.empty() ? "" : " = " + joined_texts(texts, ", ");
  return signed_text(change.total / unit, digits) + ' ' + change.unit + parts;
}

}  // namespace

Explained explained(const ComparisonRow& run) {
  Explained figures{.tokens_per_step = tokens_per_step(run.spec),
                    .step_time_ms = run.step_time_ms_median,
                    .slowest_rank = run.account_rank.value_or(0),
                    .slowest_host = run.node_list.empty() ? "" : run.account_host,
                    .slowest_rank_extra_ms = run.slowest_rank_extra_ms.value_or(0),
                    .allocated_bytes = run.memory_allocated_bytes_max,
                    .uses = run.memory_by_use,
                    .is_sharded = run.spec.strategy.kind == StrategyKind::kFsdp};
  if (!run.account_rank) return figures;
  TimeByPart& time = figures.time.emplace();
  for (size_t i = 0; i < kTimeParts; ++i) {
    time.milliseconds[i] = run.time_by_part[i].value_or(0);
  }
  return figures;
}

Explained explained(const RunSpec& spec, const RunPlan& plan) {
  return {.tokens_per_step = tokens_per_step(spec),
          .step_time_ms = plan.step_time_ms,
          .time = plan.time_by_part,
          .allocated_bytes = static_cast<double>(plan.memory_allocated_bytes_max),
          .uses = plan.peak.by_use,
          .is_sharded = spec.strategy.kind == StrategyKind::kFsdp};
}

Explained with_tokens_of(const Explained& own, Explained of) {
  const double scale = own.tokens_per_step / of.tokens_per_step;
  if (!(scale > 0) || !std::isfinite(scale)) return of;
  of.tokens_per_step = own.tokens_per_step;
  if (of.step_time_ms) *of.step_time_ms *= scale;
  of.slowest_rank_extra_ms *= scale;
  if (!of.time) return of;
  for (double& part : of.time->milliseconds) part *= scale;
  return of;
}

std::string time_unit(const Explained& own, const Explained& baseline) {
  if (own.tokens_per_step == baseline.tokens_per_step) return "ms a step";
  return fmt::format("ms for {:.0f} tokens", own.tokens_per_step);
}

Parts time_parts(const Explained& of) {
  Parts parts;
  if (!of.time) return parts;
  for (const TimeGroup& group : kTimeGroups) {
    parts.emplace_back(name_of(group, *of.time), time_of(group, *of.time));
  }
  sort_by_size(parts);
  return parts;
}

Parts memory_parts(const Explained& of) {
  Parts parts;
  if (!of.uses || !of.allocated_bytes) return parts;
  double rest = *of.allocated_bytes;
  for (size_t i = 0; i < kMemoryUses; ++i) {
    const auto bytes = static_cast<double>(of.uses->bytes[i]);
    parts.emplace_back(words_of(static_cast<MemoryUse>(i), of.is_sharded), bytes);
    rest -= bytes;
  }
  if (rest != 0) parts.emplace_back("rounding and workspaces", rest);
  sort_by_size(parts);
  return parts;
}

std::string peak_text(const ComparisonRow& run) {
  const Explained of = explained(run);
  if (!of.time || !run.mfu_percent || !run.hfu_percent) return "";
  double step_ms = 0;
  for (const double part_ms : of.time->milliseconds) step_ms += part_ms;
  return fmt::format(
      "Products and attention take {} ms. At the peak of {} they would take {} ms (MFU {} %, HFU "
      "{} %).",
      three_digits(time_of_products(*of.time)), run.device_name,
      three_digits(*run.hfu_percent / 100 * step_ms), three_digits(*run.mfu_percent),
      three_digits(*run.hfu_percent));
}

std::optional<FigureChange> time_change(const Explained& run, const Explained& other) {
  if (!run.time || !other.time || !run.step_time_ms || !other.step_time_ms) return std::nullopt;
  Explained own = run;
  Explained baseline = with_tokens_of(run, other);
  if (time_of_products(*own.time) == 0 || time_of_products(*baseline.time) == 0) {
    own.time = with_all_kernels(*own.time);
    baseline.time = with_all_kernels(*baseline.time);
  }
  FigureChange change{.unit = time_unit(run, other),
                      .total = *own.step_time_ms - *baseline.step_time_ms};
  for (const TimeGroup& group : kTimeGroups) {
    change.parts.emplace_back(name_with_passes(group, *own.time, *baseline.time, change.total),
                              time_of(group, *own.time) - time_of(group, *baseline.time));
  }
  change = with_rest(std::move(change));
  // Work that one rank alone has more of is this rank's.
  const double extra = own.slowest_rank_extra_ms - baseline.slowest_rank_extra_ms;
  auto& [name, largest] = change.parts.front();
  if (largest > 0 && extra > largest / 2) {
    const std::string place = own.slowest_host.empty() ? "" : ", on " + own.slowest_host;
    name += fmt::format(" (on rank {} alone{})", own.slowest_rank, place);
  }
  return change;
}

std::optional<FigureChange> memory_change(const Explained& own, const Explained& baseline) {
  const Parts own_parts = memory_parts(own);
  const Parts other_parts = memory_parts(baseline);
  if (own_parts.empty() || other_parts.empty()) return std::nullopt;
  std::map<std::string, double> changes;
  for (const auto& [name, bytes] : own_parts) changes[name] += bytes;
  for (const auto& [name, bytes] : other_parts) changes[name] -= bytes;
  return with_rest({.unit = "GiB",
                    .total = *own.allocated_bytes - *baseline.allocated_bytes,
                    .parts = Parts(changes.begin(), changes.end())});
}

std::string time_change_text(const FigureChange& change) { return change_text(change, 1, 0); }

std::string memory_change_text(const FigureChange& change) {
  return change_text(change, kBytesPerGibibyte, 2);
}

std::vector<std::string> change_texts(const Explained& own, const Explained& baseline) {
  std::vector<std::string> texts;
  if (const auto time = time_change(own, baseline)) texts.push_back(time_change_text(*time));
  if (const auto memory = memory_change(own, baseline)) {
    texts.push_back(memory_change_text(*memory));
  }
  return texts;
}

namespace {

// Returns the figures of the row's run whose peak is the row's, with the time of the row's medians.
Explained explained(const Series& row) {
  Explained figures = explained(row.median);
  const auto found = std::ranges::find_if(row.runs, [&](const ComparisonRow* run) {
    return is_finished(run) && run->memory_by_use &&
           run->memory_allocated_bytes_max == row.median.memory_allocated_bytes_max;
  });
  figures.uses = found == row.runs.end() ? std::nullopt : (*found)->memory_by_use;
  return figures;
}

}  // namespace

std::vector<WhyRow> why_rows_differ(Rows rows) {
  const SpeedComparison speeds(rows);
  const auto differ_in_time = [&](const Series& row, const Series& baseline) {
    const Speed speed = speeds.against(row, baseline);
    return speed == Speed::kSlower || speed == Speed::kFaster || speed == Speed::kOtherFilling;
  };
  std::vector<WhyRow> why;
  for (const Series* row : rows_that_fit(rows)) {
    const Series* baseline = row->baseline;
    if (baseline == nullptr || baseline == row || row->median.family_value) continue;
    const Explained own = explained(*row);
    const Explained other = explained(*baseline);
    WhyRow found{.row = row, .memory = memory_change(own, other)};
    if (differ_in_time(*row, *baseline)) found.time = time_change(own, other);
    if (is_equal_memory(allocated_bytes(row), allocated_bytes(baseline))) found.memory.reset();
    if (found.time || found.memory) why.push_back(std::move(found));
  }
  return why;
}

}  // namespace fsdp
