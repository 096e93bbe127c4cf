#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/experiment/experiment.h"
#include "runner/experiment/sweep.h"

namespace fsdp {

// Returns the smallest valid value that is at least `value`, if any.
using NextValid = std::function<std::optional<int64_t>(int64_t value)>;

// The search for the largest value of a key that fits. Pure: knows no runs.
//
// Begins at `from`, which is valid, and doubles values that fit (to the next valid value). If a
// value fits, all smaller ones do. If it does not, no larger one does. With an expected largest
// value, the search begins there: that value and the next one prove it. If it does not fit, the
// search continues at the next smaller value that doubling reaches.
class Doubling {
 public:
  Doubling(DoublingRange range, NextValid next_valid)
      : range_(range), next_valid_(std::move(next_valid)) {}

  void fits(int64_t value);
  void does_not_fit(int64_t value);
  // `value` must be a valid value of a refined range.
  void expect_to_be_largest(int64_t value) { expected_ = value; }
  std::optional<int64_t> largest_that_fits() const { return largest_that_fits_; }

  // The value to try next, between known fitting and failing ones. nullopt: the search is over.
  std::optional<int64_t> next() const;
  // The values that follow while all fit, beginning with the next one; at most `count`.
  std::vector<int64_t> while_all_fit(size_t count) const;

 private:
  std::optional<int64_t> valid_from(int64_t value) const;
  std::optional<int64_t> doubled_below(int64_t value) const;
  std::vector<int64_t> valid_between(int64_t low, int64_t high) const;

  DoublingRange range_;
  NextValid next_valid_;
  std::optional<int64_t> expected_;
  std::optional<int64_t> largest_that_fits_;
  std::optional<int64_t> smallest_that_does_not_;
};

// The runs of one point and combination with a doubled key: one per value, made when it is needed.
// All have the same position.
class DoublingSeries {
 public:
  // `run_of` makes the run of a value, and throws ConfigError if the value is not allowed. No value
  // above `last` is allowed.
  DoublingSeries(DoubledKey key, std::optional<int64_t> last,
                 std::function<Run(int64_t value)> run_of);

  const std::string& key() const { return key_.key; }
  // True if the search looks for the largest value, and not for the results on the way to it.
  bool is_refined() const { return key_.range.refine; }
  bool is_in_range(int64_t value) const {
    return value >= key_.range.from && value <= key_.range.to.value_or(value);
  }
  // Returns a search that knows nothing yet.
  Doubling search() const;
  // A hash of what the runs share, 32 hex digits: all but the key and what is derived from it.
  std::string family(const FileDigest& digest) const;
  // Describes what follows: "then batch.size_per_rank 2, 4, 8, until one does not fit; then values
  // between the last two".
  std::string outlook() const;

 private:
  friend Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value);

  std::optional<int64_t> next_valid(int64_t value) const;

  DoubledKey key_;
  std::optional<int64_t> last_;
  std::function<Run(int64_t)> run_of_;
  RunSpec family_;
  int64_t gap_;  // the widest gap between valid values, if no last one is known
};

// Throws ConfigError if the key cannot have this value.
Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value);

}  // namespace fsdp
