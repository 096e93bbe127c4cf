// Interpolates between measured times. More work never takes less time.
#include "trainer/plan/work_times.h"

#include <algorithm>
#include <iterator>

namespace fsdp {
namespace {

using Curve = std::vector<std::pair<double, double>>;

// Makes times rise with the work. Neighbours whose times fall both get the mean (pool adjacent
// violators).
void make_ascending(Curve& curve) {
  struct Pool {
    double mean;
    size_t count;
  };
  std::vector<Pool> pools;
  for (const auto& [place, time] : curve) {
    pools.push_back({time, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean > pools.back().mean) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& before = pools.back();
      const auto sum = static_cast<double>(before.count) * before.mean +
                       static_cast<double>(last.count) * last.mean;
      before.count += last.count;
      before.mean = sum / static_cast<double>(before.count);
    }
  }
  auto point = curve.begin();
  for (const Pool& pool : pools) {
    for (size_t i = 0; i < pool.count; ++i) (point++)->second = pool.mean;
  }
}

// Interpolates linearly between points. Above the last point, extends the line through the last two
// points. If these do not rise, the value grows in proportion. Below the first point, it also grows
// in proportion.
double value_at(const Curve& curve, double where) {
  const auto [last_place, last_time] = curve.back();
  const bool is_flat = curve.size() == 1 || std::prev(curve.end(), 2)->second >= last_time;
  if (curve.size() == 1 || (is_flat && where > last_place)) {
    return last_place > 0 ? last_time * where / last_place : last_time;
  }
  auto above = std::ranges::lower_bound(curve, where, {}, &Curve::value_type::first);
  if (above == curve.begin()) return above->second * std::max(0.0, where / above->first);
  if (above == curve.end()) --above;
  const auto [high, time_high] = *above;
  const auto [low, time_low] = *std::prev(above);
  return time_low + (time_high - time_low) / (high - low) * (where - low);
}

}  // namespace

WorkTimes::WorkTimes(const std::vector<WorkTime>& measured) {
  for (const WorkTime& time : measured) {
    times_[time.work][time.width].emplace_back(time.rows, time.time_ms);
  }
  for (auto& [work, widths] : times_) {
    for (auto& [width, over_rows] : widths) {
      std::ranges::sort(over_rows);
      const auto [twice, end] = std::ranges::unique(over_rows, {}, &Curve::value_type::first);
      over_rows.erase(twice, end);
      make_ascending(over_rows);
    }
  }
}

std::optional<double> WorkTimes::time_ms(const Work& work) const {
  const auto found = times_.find(work.name);
  if (found == times_.end()) return std::nullopt;
  Curve over_widths;
  for (const auto& [width, over_rows] : found->second) {
    over_widths.emplace_back(width, value_at(over_rows, static_cast<double>(work.rows)));
  }
  make_ascending(over_widths);
  return value_at(over_widths, static_cast<double>(work.width));
}

}  // namespace fsdp
