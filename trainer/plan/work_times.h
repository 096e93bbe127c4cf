#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/plan/calibration.h"
#include "trainer/backend/work.h"

namespace fsdp {

// How long pieces of work take, from those that were measured.
class WorkTimes {
 public:
  explicit WorkTimes(const std::vector<WorkTime>& measured);

  // Linear between the two nearest measured numbers of rows, of each measured width, and between
  // the two nearest widths; above the largest as between the last two, or in proportion. Absent: no
  // work of this name was measured.
  std::optional<double> time_ms(const Work& work) const;

 private:
  using TimesOverRows = std::vector<std::pair<double, double>>;

  std::map<std::string, std::map<int64_t, TimesOverRows>> times_;  // by name and width
};

}  // namespace fsdp
