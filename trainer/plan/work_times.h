#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/plan/calibration.h"
#include "trainer/kernels/work.h"

namespace fsdp {

// Computes how long pieces of work take, from measured pieces.
class WorkTimes {
 public:
  explicit WorkTimes(const std::vector<WorkTime>& measured);

  // Returns the time of `work`; nullopt if no work of its name was measured. Interpolates linearly
  // between measured numbers of rows, for each measured width, and then between the widths. Above
  // the largest measured value, extends the line through the last two. If these do not rise, the
  // time grows in proportion.
  std::optional<double> time_ms(const Work& work) const;

 private:
  using TimesOverRows = std::vector<std::pair<double, double>>;

  std::map<std::string, std::map<int64_t, TimesOverRows>> times_;  // by name and width
};

}  // namespace fsdp
