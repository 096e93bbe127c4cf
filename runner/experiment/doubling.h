#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

// The search for the largest value of a key that fits. Pure: knows no runs.
namespace fsdp {

struct DoublingRange {
  int64_t from = 1;
  std::optional<int64_t> to;  // the largest to try; absent: until one does not fit
  bool refine = false;        // bisect down to neighbouring valid values
};

// The smallest valid value that is at least `value`, if there is one.
using NextValid = std::function<std::optional<int64_t>(int64_t value)>;

// Begins at `from`, which is valid, and doubles what fits (to the next valid value). A value that
// fits says that all smaller ones do, a value that does not that no larger one does.
class Doubling {
 public:
  Doubling(DoublingRange range, NextValid next_valid);

  void fits(int64_t value);
  void does_not_fit(int64_t value);

  // The value to try next, between what is known to fit and what is known not to; none: the search
  // is over.
  std::optional<int64_t> next() const;
  // The values that follow as long as all fit, the next one first; at most `count`.
  std::vector<int64_t> while_all_fit(size_t count) const;

 private:
  std::optional<int64_t> valid_from(int64_t value) const;
  std::vector<int64_t> valid_between(int64_t low, int64_t high) const;

  DoublingRange range_;
  NextValid next_valid_;
  std::optional<int64_t> largest_that_fits_;
  std::optional<int64_t> smallest_that_does_not_;
};

}  // namespace fsdp
