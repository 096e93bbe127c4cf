#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runner/answers/answers.h"
#include "runner/store/store.h"

namespace fsdp {

// The losses of two runs.
class LossesOfTwo {
 public:
  LossesOfTwo(const Store& store, const RunRecord& one, const RunRecord& other);

  // Returns why the losses need not be equal. Empty if they must be.
  std::string why_not_compared() const;
  // Says if the losses are equal, or why they need not be. Empty if a run has not finished.
  std::string answer() const;
  // Returns the first step at which they are farther apart than is allowed.
  std::optional<int64_t> parting_step() const;

 private:
  std::vector<ComparisonRow> runs_;
  std::deque<Series> series_;
  SeriesRows rows_;  // empty if a run has not finished
};

}  // namespace fsdp
