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

// The smallest valid value that is at least `value`, if there is one.
using NextValid = std::function<std::optional<int64_t>(int64_t value)>;

// The search for the largest value of a key that fits. Pure: knows no runs.
//
// Begins at `from`, which is valid, and doubles what fits (to the next valid value). A value that
// fits says that all smaller ones do, a value that does not that no larger one does. Where it is
// expected which value is the largest that fits, it begins there: then that value and the next one
// prove it. A value that was expected to fit and does not is halved.
class Doubling {
 public:
  Doubling(DoublingRange range, NextValid next_valid)
      : range_(range), next_valid_(std::move(next_valid)) {}

  void fits(int64_t value);
  void does_not_fit(int64_t value);
  // A valid value of a range that is refined.
  void expect_to_be_largest(int64_t value) { expected_ = value; }
  std::optional<int64_t> largest_that_fits() const { return largest_that_fits_; }

  // The value to try next, between what is known to fit and what is known not to; none: the search
  // is over.
  std::optional<int64_t> next() const;
  // The values that follow as long as all fit, the next one first; at most `count`.
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

// The runs of one point and combination whose sweep doubles a key: one for each value, made when it
// is known that it is wanted. All have the same position.
class DoublingSeries {
 public:
  // `run_of` makes the run of a value, and throws ConfigError when there is none; no value above
  // `last` has one.
  DoublingSeries(DoubledKey key, std::optional<int64_t> last,
                 std::function<Run(int64_t value)> run_of);

  const std::string& key() const { return key_.key; }
  // Whether the largest value is looked for, and not what happens on the way to it.
  bool is_refined() const { return key_.range.refine; }
  bool is_in_range(int64_t value) const {
    return value >= key_.range.from && value <= key_.range.to.value_or(value);
  }
  // A search that knows nothing yet.
  Doubling search() const;
  // What the runs have in common, 32 hex digits: all but the key and what is derived from it.
  std::string family(const FileDigest& digest) const;
  // "then batch.size_per_rank 2, 4, 8, until one does not fit; then values between the last two"
  std::string outlook() const;

 private:
  friend Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value);

  std::optional<int64_t> next_valid(int64_t value) const;

  DoubledKey key_;
  std::optional<int64_t> last_;
  std::function<Run(int64_t)> run_of_;
  RunSpec family_;
  int64_t gap_;  // up to the next valid value, where nothing says where they end
};

// Throws ConfigError when the key cannot have this value.
Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value);

}  // namespace fsdp
