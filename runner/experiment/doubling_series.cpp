// Searches for the largest value that fits, and makes the run of a value when it is needed.
#include "runner/experiment/doubling_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/files/digest.h"
#include "base/text/config_error.h"
#include "contract/spec/run_spec_yaml.h"

namespace fsdp {
namespace {

constexpr size_t kValuesInOutlook = 10;

}  // namespace

void Doubling::fits(int64_t value) {
  largest_that_fits_ = std::max(largest_that_fits_.value_or(value), value);
}

void Doubling::does_not_fit(int64_t value) {
  smallest_that_does_not_ = std::min(smallest_that_does_not_.value_or(value), value);
}

std::optional<int64_t> Doubling::next() const {
  // The expected value comes first, as long as no result contradicts it.
  if (expected_ && expected_ > largest_that_fits_ &&
      *expected_ < smallest_that_does_not_.value_or(*expected_ + 1)) {
    return expected_;
  }
  if (!largest_that_fits_) {
    return smallest_that_does_not_ ? doubled_below(*smallest_that_does_not_) : range_.from;
  }
  // One run above the expected value shows that it is the largest.
  if (expected_ && largest_that_fits_ == expected_ && !smallest_that_does_not_) {
    if (const auto above = valid_from(*expected_ + 1)) return above;
  }
  const int64_t twice = 2 * *largest_that_fits_;
  const std::optional<int64_t> doubled = valid_from(twice);
  if (doubled && *doubled < smallest_that_does_not_.value_or(*doubled + 1)) return doubled;
  if (!range_.refine) return std::nullopt;
  // If no value is known not to fit, the range ends before the double. Its last value is tried
  // next.
  return smallest_that_does_not_ ? middle_between(*largest_that_fits_, *smallest_that_does_not_)
                                 : last_between(*largest_that_fits_, twice);
}

std::vector<int64_t> Doubling::while_all_fit(size_t count) const {
  std::vector<int64_t> values;
  Doubling search = *this;
  for (auto value = search.next(); value && values.size() < count; value = search.next()) {
    values.push_back(*value);
    search.fits(*value);
  }
  return values;
}

// The largest value below `value` that doubling reaches.
std::optional<int64_t> Doubling::doubled_below(int64_t value) const {
  std::optional<int64_t> below;
  for (auto next = valid_from(range_.from); next && *next < value; next = valid_from(2 * *next)) {
    below = next;
  }
  return below;
}

std::optional<int64_t> Doubling::valid_from(int64_t value) const {
  const std::optional<int64_t> found = next_valid_(value);
  return found && *found <= range_.to.value_or(*found) ? found : std::nullopt;
}

// The median of the valid values if they are few, else the first valid one from the middle on.
std::optional<int64_t> Doubling::middle_between(int64_t low, int64_t high) const {
  constexpr size_t kFew = 64;
  std::vector<int64_t> values;
  for (auto value = valid_from(low + 1); value && *value < high && values.size() <= kFew;
       value = valid_from(*value + 1)) {
    values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  if (values.size() <= kFew) return values[values.size() / 2];
  while (high - low > 1) {
    const int64_t middle = low + (high - low + 1) / 2;
    const std::optional<int64_t> value = valid_from(middle);
    if (value && *value < high) return value;
    high = middle;
  }
  return std::nullopt;
}

std::optional<int64_t> Doubling::last_between(int64_t low, int64_t high) const {
  std::optional<int64_t> last;
  while (const auto value = middle_between(last.value_or(low), high)) last = value;
  return last;
}

std::optional<int64_t> largest_that_fits(Doubling search, const FitsAt& fits_at) {
  constexpr int64_t kTriedAbove = 64;
  while (const auto value = search.next()) {
    const auto fit = fits_at(*value);
    if (!fit) return std::nullopt;
    fit == ValueFit::kFits ? search.fits(*value) : search.does_not_fit(*value);
  }
  std::optional<int64_t> largest = search.largest_that_fits();
  if (!search.range().refine) return largest;
  int64_t last = largest.value_or(search.range().from);
  for (int64_t value = last + 1; value <= last + kTriedAbove; ++value) {
    const auto fit = fits_at(value);
    if (fit == ValueFit::kTooLarge) break;
    if (fit == ValueFit::kFits) largest = last = value;
  }
  return largest;
}

int64_t runs_saved(const Doubling& search, int64_t largest) {
  const auto runs_of = [&](Doubling of) {
    int64_t runs = 0;
    for (; const auto value = of.next(); ++runs) {
      *value <= largest ? of.fits(*value) : of.does_not_fit(*value);
    }
    return runs;
  };
  Doubling expecting = search;
  expecting.expect_to_be_largest(largest);
  // Both searches are played to their ends, as if memory rose with the value.
  return runs_of(search) - runs_of(std::move(expecting));
}

int64_t widest_gap(const RunSpec& spec) {
  constexpr int64_t kOfOtherKeys = 4096;
  return std::max(kOfOtherKeys, total_batch(spec));
}

NextValid next_valid_by(std::function<void(int64_t value)> try_value, int64_t gap, int64_t last) {
  // Remembers answers: a try makes a whole run, and a search asks again and again.
  const auto known = std::make_shared<std::map<int64_t, bool>>();
  const auto is_valid = [known, try_value = std::move(try_value)](int64_t value) {
    const auto [found, is_new] = known->emplace(value, true);
    if (!is_new) return found->second;
    try {
      try_value(value);
    } catch (const ConfigError&) {
      found->second = false;
    }
    return found->second;
  };
  return [=](int64_t value) -> std::optional<int64_t> {
    for (const int64_t end = std::min(last, value + gap); value <= end; ++value) {
      if (is_valid(value)) return value;
    }
    return std::nullopt;
  };
}

DoublingSeries::DoublingSeries(DoubledKey key, std::optional<int64_t> last,
                               std::function<Run(int64_t value)> run_of)
    : key_(std::move(key)), run_of_(std::move(run_of)), family_(run_of_(key_.range.from).spec) {
  const auto maximum = static_cast<int64_t>(range_of_key(key_.key).maximum);
  next_valid_ = next_valid_by(run_of_, last ? *last : widest_gap(family_),
                              std::min(last.value_or(maximum), maximum));
  // Another run shows which values are derived from the key.
  if (const auto other = next_valid_(2 * key_.range.from)) {
    reset_differences(family_, run_of_(*other).spec);
  }
}

std::optional<int64_t> DoublingSeries::expected_largest(
    const std::function<std::optional<RunPlan>(const RunSpec&)>& predict) const {
  return largest_that_fits(search(), [&](int64_t value) -> std::optional<ValueFit> {
    if (!is_in_range(value)) return std::nullopt;
    try {
      const RunSpec spec = run_of_(value).spec;
      const bool has_limit = spec.device == DeviceKind::kCuda || memory_limit_bytes(spec) > 0;
      const bool is_short = *spec.batch.gradient_accumulation_steps <= kMostPlannedMicroBatches;
      const auto plan = has_limit && is_short ? predict(spec) : std::nullopt;
      if (!plan || plan->fit == Fit::kUnknown) return std::nullopt;
      return value_fit(*plan, spec, key_.key);
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  });
}

std::string DoublingSeries::family(const FileDigest& digest) const {
  return text_digest(run_hash(family_, digest) + ' ' + key_.key);
}

std::string DoublingSeries::outlook() const {
  Doubling search = this->search();
  search.fits(key_.range.from);
  const std::vector<int64_t> values = search.while_all_fit(kValuesInOutlook + 1);
  if (values.empty()) return "no other value of " + key_.key + " follows";
  const auto shown = std::span(values).first(std::min(values.size(), kValuesInOutlook));
  return fmt::format("then {} {}{}, until one does not fit{}", key_.key, fmt::join(shown, ", "),
                     shown.size() < values.size() ? ", ..." : "",
                     key_.range.refine ? "; then values between the last two" : "");
}

Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value) {
  Run run = series->run_of_(value);
  run.doubled_value = value;
  run.doubling = std::move(series);
  return run;
}

}  // namespace fsdp
