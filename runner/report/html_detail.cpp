#include "runner/report/html_detail.h"

#include <algorithm>

namespace fsdp {

Curve thinned(std::vector<CurvePoint> series) {
  constexpr size_t kParts = 249;
  constexpr size_t kMostPoints = 2 * kParts + 2;
  const size_t measured = series.size();
  if (measured <= kMostPoints) return {.points = std::move(series), .measured = measured};
  std::vector<CurvePoint> points{series.front()};
  const size_t inner = measured - 2;
  for (size_t part = 0; part < kParts; ++part) {
    const auto begin = series.begin() + static_cast<std::ptrdiff_t>(1 + part * inner / kParts);
    const auto end = series.begin() + static_cast<std::ptrdiff_t>(1 + (part + 1) * inner / kParts);
    const auto [least, greatest] = std::minmax_element(
        begin, end, [](const CurvePoint& a, const CurvePoint& b) { return a.y < b.y; });
    points.push_back(*std::min(least, greatest));
    if (least != greatest) points.push_back(*std::max(least, greatest));
  }
  points.push_back(series.back());
  return {.points = std::move(points), .measured = measured};
}

}  // namespace fsdp
