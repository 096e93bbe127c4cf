#include "runner/experiment/doubling.h"

#include <algorithm>

namespace fsdp {

Doubling::Doubling(DoublingRange range, NextValid next_valid)
    : range_(range), next_valid_(std::move(next_valid)) {}

void Doubling::fits(int64_t value) {
  largest_that_fits_ = std::max(largest_that_fits_.value_or(value), value);
}

void Doubling::does_not_fit(int64_t value) {
  smallest_that_does_not_ = std::min(smallest_that_does_not_.value_or(value), value);
}

std::optional<int64_t> Doubling::next() const {
  if (!largest_that_fits_) {
    return smallest_that_does_not_ ? std::nullopt : std::optional(range_.from);
  }
  const int64_t twice = 2 * *largest_that_fits_;
  const std::optional<int64_t> doubled = valid_from(twice);
  if (doubled && *doubled < smallest_that_does_not_.value_or(*doubled + 1)) return doubled;
  if (!range_.refine) return std::nullopt;
  const std::vector<int64_t> between =
      valid_between(*largest_that_fits_, smallest_that_does_not_.value_or(twice));
  if (between.empty()) return std::nullopt;
  // Where nothing is known not to fit, the range ends before the double: its end is what is asked.
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

}  // namespace fsdp
