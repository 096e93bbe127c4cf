#include "runner/experiment/doubling_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "contract/record/digest.h"
#include "contract/spec/run_spec_keys.h"
#include "contract/text/config_error.h"
#include "runner/experiment/largest_value.h"

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
  if (expected_ && expected_ > largest_that_fits_ &&
      *expected_ < smallest_that_does_not_.value_or(*expected_ + 1)) {
    return expected_;
  }
  if (!largest_that_fits_) {
    return smallest_that_does_not_ ? doubled_below(*smallest_that_does_not_) : range_.from;
  }
  if (expected_ && largest_that_fits_ == expected_ && !smallest_that_does_not_) {
    if (const auto above = valid_from(*expected_ + 1)) return above;
  }
  const int64_t twice = 2 * *largest_that_fits_;
  const std::optional<int64_t> doubled = valid_from(twice);
  if (doubled && *doubled < smallest_that_does_not_.value_or(*doubled + 1)) return doubled;
  if (!range_.refine) return std::nullopt;
  const std::vector<int64_t> between =
      valid_between(*largest_that_fits_, smallest_that_does_not_.value_or(twice));
  if (between.empty()) return std::nullopt;
  // If no value is known not to fit, the range ends before the double. Its last value is next.
  return smallest_that_does_not_ ? between[between.size() / 2] : between.back();
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

std::vector<int64_t> Doubling::valid_between(int64_t low, int64_t high) const {
  std::vector<int64_t> values;
  for (auto value = valid_from(low + 1); value && *value < high; value = valid_from(*value + 1)) {
    values.push_back(*value);
  }
  return values;
}

DoublingSeries::DoublingSeries(DoubledKey key, std::optional<int64_t> last,
                               std::function<Run(int64_t value)> run_of)
    : key_(std::move(key)),
      last_(last),
      run_of_(std::move(run_of)),
      family_(run_of_(key_.range.from).spec),
      gap_(widest_gap(family_)) {
  // Values derived from the key differ, too.
  if (const auto other = next_valid(2 * key_.range.from)) {
    reset_differences(family_, run_of_(*other).spec);
  }
}

Doubling DoublingSeries::search() const {
  return Doubling(key_.range, [this](int64_t value) { return next_valid(value); });
}

std::string DoublingSeries::family(const FileDigest& digest) const {
  return text_digest(run_hash(family_, digest) + ' ' + key_.key);
}

std::optional<int64_t> DoublingSeries::next_valid(int64_t value) const {
  const auto maximum = static_cast<int64_t>(range_of_key(key_.key).maximum);
  const int64_t last = std::min(last_.value_or(value + gap_), maximum);
  for (; value <= last; ++value) {
    try {
      run_of_(value);
      return value;
    } catch (const ConfigError&) {  // not this one
    }
  }
  return std::nullopt;
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
