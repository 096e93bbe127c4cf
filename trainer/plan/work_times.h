#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/plan/calibration.h"
#include "trainer/backend/work.h"

namespace fsdp {

// Computes how long pieces of work take, from measured pieces.
class WorkTimes {
 public:
  explicit WorkTimes(const std::vector<WorkTime>& measured);

  // Interpolates linearly between the nearest measured numbers of rows of each width, and then
  // between the nearest widths. Above the largest, extends the last two or grows in proportion.
  // nullopt if no work of this name was measured.
  std::optional<double> time_ms(const Work& work) const;

 private:
  using TimesOverRows = std::vector<std::pair<double, double>>;

  std::map<std::string, std::map<int64_t, TimesOverRows>> times_;  // by name and width
};

}  // namespace fsdp
