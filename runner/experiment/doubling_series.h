#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "contract/plan/run_plan.h"
#include "runner/experiment/experiment.h"
#include "runner/experiment/sweep.h"

namespace fsdp {

// Returns the smallest valid value that is at least `value`, if any.
using NextValid = std::function<std::optional<int64_t>(int64_t value)>;

// The search for the largest value of a key that fits. Pure: knows no runs.
//
// Begins at `from`, which must be valid. Doubles values that fit, to the next valid value. Assumes
// that all values below a fitting value fit, and that none above a failing value does. If a largest
// value is expected, the search begins there. The expectation is right if that value fits and the
// next valid one does not. If the expected value does not fit, the search continues at the next
// smaller value that doubling reaches.
class Doubling {
 public:
  Doubling(DoublingRange range, NextValid next_valid)
      : range_(range), next_valid_(std::move(next_valid)) {}

  void fits(int64_t value);
  void does_not_fit(int64_t value);
  // `value` must be a valid value of a refined range.
  void expect_to_be_largest(int64_t value) { expected_ = value; }
  std::optional<int64_t> expected() const { return expected_; }
  std::optional<int64_t> largest_that_fits() const { return largest_that_fits_; }
  const DoublingRange& range() const { return range_; }
  std::optional<int64_t> smallest_that_does_not_fit() const { return smallest_that_does_not_; }

  // True if some value is known to fit or not.
  bool has_begun() const { return largest_that_fits_ || smallest_that_does_not_; }

  // Returns the value to try next: larger than all values known to fit, and smaller than those
  // known not to. nullopt: the search is over.
  std::optional<int64_t> next() const;
  // Returns the values that the search would try if all fit, beginning with next(); at most
  // `count`.
  std::vector<int64_t> while_all_fit(size_t count) const;

 private:
  std::optional<int64_t> valid_from(int64_t value) const;
  std::optional<int64_t> doubled_below(int64_t value) const;
  std::optional<int64_t> middle_between(int64_t low, int64_t high) const;
  std::optional<int64_t> last_between(int64_t low, int64_t high) const;

  DoublingRange range_;
  NextValid next_valid_;
  std::optional<int64_t> expected_;
  std::optional<int64_t> largest_that_fits_;
  std::optional<int64_t> smallest_that_does_not_;
};

// The most micro-batches of a step that a search plans. A plan goes through them one by one.
inline constexpr int64_t kMostPlannedMicroBatches = 4096;

// A plan's verdict on a value. nullopt: it is unknown, or the run cannot have the value.
using FitsAt = std::function<std::optional<ValueFit>(int64_t value)>;

// Returns the largest value that fits; nullopt if none does, or if the verdict on a value that the
// search needs is unknown. Memory may fall as a value rises: a GPU's allocator takes whole pages,
// and with rows of different lengths the data decides. A refined search therefore also tries values
// above its result, until one is too large or 64 in a row do not fit.
std::optional<int64_t> largest_that_fits(Doubling search, const FitsAt& fits_at);

// The number of runs saved if the search starts at `largest` and this value is correct.
int64_t runs_saved(const Doubling& search, int64_t largest);

// Returns a function that finds the next valid value, from `value` to `value` + `gap` and up to
// `last`. A value is valid if `try_value` does not throw ConfigError. `gap` must be the widest gap
// between valid values. Each value is tried once.
NextValid next_valid_by(std::function<void(int64_t value)> try_value, int64_t gap, int64_t last);

// Returns the widest gap between valid values of a key in a run like `spec`. A total batch, for
// example, is a multiple of the rows that all ranks compute at a time.
int64_t widest_gap(const RunSpec& spec);

// The runs of one point and combination with a doubled key, one per value. Each run is made when it
// is needed. All have the same position.
class DoublingSeries {
 public:
  // `run_of` makes the run of a value, and throws ConfigError if the value is not allowed. No value
  // above `last` is allowed.
  DoublingSeries(DoubledKey key, std::optional<int64_t> last,
                 std::function<Run(int64_t value)> run_of);

  const std::string& key() const { return key_.key; }
  // True if only the largest value matters. False if the results of all doubled values matter.
  bool is_refined() const { return key_.range.refine; }
  bool is_in_range(int64_t value) const {
    return value >= key_.range.from && value <= key_.range.to.value_or(value);
  }
  // Returns a search that knows nothing yet.
  Doubling search() const { return Doubling(key_.range, next_valid_); }
  // Returns the largest value that fits according to `predict`. nullopt if predictions are missing
  // or only the host's memory limits the runs.
  std::optional<int64_t> expected_largest(
      const std::function<std::optional<RunPlan>(const RunSpec&)>& predict) const;
  // Returns a hash of the settings that all runs share, 32 hex digits. Leaves out the doubled value
  // and values derived from it.
  std::string family(const FileDigest& digest) const;
  // Describes the values after the first: "then batch.size_per_rank 2, 4, 8, until one does not
  // fit; then values between the last two".
  std::string outlook() const;

 private:
  friend Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value);

  DoubledKey key_;
  std::function<Run(int64_t)> run_of_;
  RunSpec family_;
  NextValid next_valid_;
};

// Throws ConfigError if the key cannot have this value.
Run doubled_run(std::shared_ptr<const DoublingSeries> series, int64_t value);

}  // namespace fsdp
