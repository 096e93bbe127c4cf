// Plans a run with some of the keys of another, and averages over the orders of changing them.
#include "runner/plan/key_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "base/text/config_error.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/table/names.h"
#include "runner/table/number_text.h"

namespace fsdp {
namespace {

constexpr size_t kMostKeysOfAllOrders = 5;
constexpr int kSampledOrders = 120;  // as many as the orders of 5 keys

// Keys that only change together: one process has no other strategy.
constexpr std::string_view kJoined[] = {"strategy.kind", "strategy.ranks"};
// Keys that follow from others.
constexpr std::string_view kDerived[] = {"batch.total", "train.steps"};

PlannedFigures difference(const PlannedFigures& to, const PlannedFigures& from) {
  PlannedFigures change{.memory_bytes = to.memory_bytes - from.memory_bytes};
  if (to.time_ms && from.time_ms) change.time_ms = *to.time_ms - *from.time_ms;
  return change;
}

std::vector<std::vector<size_t>> orders_of(size_t keys) {
  std::vector<size_t> order(keys);
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<std::vector<size_t>> orders;
  if (keys <= kMostKeysOfAllOrders) {
    do {
      orders.push_back(order);
    } while (std::ranges::next_permutation(order).found);
    return orders;
  }
  std::minstd_rand random(1);
  for (int i = 0; i < kSampledOrders; ++i) {
    std::ranges::shuffle(order, random);
    orders.push_back(order);
  }
  return orders;
}

// The differing keys, each with the keys that change with it.
std::vector<std::vector<const RunSpecKey*>> differing_keys(const RunSpec& run,
                                                           const RunSpec& baseline) {
  std::vector<std::vector<const RunSpecKey*>> groups;
  std::vector<const RunSpecKey*> joined;
  for (const RunSpecKey& key : run_spec_keys()) {
    const bool only_how = key.effect && *key.effect == Effect::kHowOnly;
    const bool is_left_out = key.is_path || only_how || is_among(kDerived, key.name);
    if (is_left_out || key.is_equal(run, baseline)) continue;
    if (is_among(kJoined, key.name)) {
      joined.push_back(&key);
    } else {
      groups.push_back({&key});
    }
  }
  if (!joined.empty()) groups.insert(groups.begin(), joined);
  return groups;
}

std::string signed_gibibytes(double bytes) {
  return fmt::format("{}{}", bytes < 0 ? "-" : "+",
                     three_digits(std::abs(bytes) / kBytesPerGibibyte));
}

}  // namespace

std::optional<std::vector<KeyShare>> shares_of(
    const std::vector<std::string>& keys,
    const std::function<std::optional<PlannedFigures>(uint32_t)>& figures_of) {
  std::map<uint32_t, std::optional<PlannedFigures>> known;
  const auto figures = [&](uint32_t set) -> const std::optional<PlannedFigures>& {
    const auto found = known.find(set);
    return found != known.end() ? found->second : known[set] = figures_of(set);
  };
  std::vector<PlannedFigures> sums(keys.size(), {.time_ms = 0});
  double count = 0;
  for (const std::vector<size_t>& order : orders_of(keys.size())) {
    std::vector<PlannedFigures> changes(keys.size());
    uint32_t set = 0;
    bool is_possible = figures(set).has_value();
    for (const size_t key : order) {
      if (!is_possible) break;
      const uint32_t next = set | uint32_t{1} << key;
      is_possible = figures(next).has_value();
      if (is_possible) changes[key] = difference(*figures(next), *figures(set));
      set = next;
    }
    if (!is_possible) continue;
    ++count;
    for (size_t key = 0; key < keys.size(); ++key) {
      sums[key].memory_bytes += changes[key].memory_bytes;
      if (!changes[key].time_ms) sums[key].time_ms.reset();
      if (sums[key].time_ms) *sums[key].time_ms += *changes[key].time_ms;
    }
  }
  if (count == 0) return std::nullopt;
  std::vector<KeyShare> shares;
  for (size_t key = 0; key < keys.size(); ++key) {
    PlannedFigures share{.memory_bytes = sums[key].memory_bytes / count};
    if (sums[key].time_ms) share.time_ms = *sums[key].time_ms / count;
    shares.push_back({keys[key], share});
  }
  return shares;
}

std::string key_shares_text(const std::vector<KeyShare>& shares) {
  std::vector<std::string> texts;
  for (const KeyShare& of : shares) {
    std::string text = fmt::format("{} {} GiB", of.keys, signed_gibibytes(of.share.memory_bytes));
    if (of.share.time_ms) text += fmt::format(" and {:+.1f} ms", *of.share.time_ms);
    texts.push_back(std::move(text));
  }
  return texts.empty() ? "" : "by key, as planned: " + joined_texts(texts, "; ");
}

std::string key_shares_text(ExperimentPlans& plans, const RunSpec& run, const RunSpec& baseline) {
  const auto groups = differing_keys(run, baseline);
  if (groups.size() < 2) return "";
  const auto figures_of = [&](uint32_t set) -> std::optional<PlannedFigures> {
    RunSpec spec = baseline;
    for (size_t i = 0; i < groups.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      for (const RunSpecKey* key : groups[i]) key->copy(run, spec);
    }
    try {
      spec = resolved_again(std::move(spec));
      const RunPlan plan = plans.plan_spec(spec);
      PlannedFigures figures{.memory_bytes = static_cast<double>(plan.memory_allocated_bytes_max)};
      if (is_calibrated(plan)) {  // for as many tokens as a step of the run has
        figures.time_ms = *plan.step_time_ms * tokens_per_step(run) / tokens_per_step(spec);
      }
      return figures;
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  };
  const auto keys = mapped(groups, [](const auto& group) {
    return fmt::format("{}", fmt::join(mapped(group, [](auto* key) { return key->name; }), ", "));
  });
  const auto shares = shares_of(keys, figures_of);
  return shares ? key_shares_text(*shares) : "the keys that differ cannot be changed one at a time";
}

}  // namespace fsdp
