#include "trainer/contract/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace fsdp {

bool Range::contains(double value) const {
  const bool above = minimum_excluded ? value > minimum : value >= minimum;
  const bool below = maximum_excluded ? value < maximum : value <= maximum;
  return above && below;
}

std::string Range::description() const {
  std::string text;
  if (std::isfinite(minimum)) {
    text += (minimum_excluded ? "greater than " : "at least ") + shortest(minimum);
  }
  if (std::isfinite(maximum)) {
    if (!text.empty()) text += " and ";
    text += (maximum_excluded ? "less than " : "at most ") + shortest(maximum);
  }
  return text;
}

std::string shortest(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

namespace {

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substitute, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 2);
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance <= best_distance && distance < candidate.size()) {
      if (best.empty() || distance < best_distance) best = candidate;
      best_distance = std::min(best_distance, distance);
    }
  }
  return best;
}

}  // namespace fsdp
