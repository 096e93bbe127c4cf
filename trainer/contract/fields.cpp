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

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitute = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substitute, row[j] + 1, diagonal + 1});
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
