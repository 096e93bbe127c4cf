// Checks ranges of numbers, and finds the name nearest to a misspelt one.
#include "base/text/fields.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <regex>

namespace fsdp {

// This type compares an int64_t and a double exactly.
static_assert(std::numeric_limits<long double>::digits >= 63);

bool TextForm::matches(std::string_view text) const {
  if (holds) return holds(text);
  return std::regex_match(text.begin(), text.end(), std::regex(pattern.begin(), pattern.end()));
}

bool Range::contains(long double value) const {
  const bool above = minimum_excluded ? value > minimum : value >= minimum;
  const bool below = maximum_excluded ? value < maximum : value <= maximum;
  return above && below;
}

std::string Range::description() const {
  const auto limit = [](double value) {  // large numbers in digits: 100000, not 1e+05
    const bool is_whole = std::fabs(value) <= 1e18 && value == std::floor(value);
    return is_whole ? with_decimals(value, 0) : shortest(value);
  };
  std::string text;
  if (std::isfinite(minimum)) {
    text += (minimum_excluded ? "greater than " : "at least ") + limit(minimum);
  }
  if (std::isfinite(maximum)) {
    if (!text.empty()) text += " and ";
    text += (maximum_excluded ? "less than " : "at most ") + limit(maximum);
  }
  return text;
}

namespace {

bool is_same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// The number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into
// `b`. Ignores case.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = last[j - 1] + (is_same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      row[j] = std::min({substitute, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && is_same_letter(a[i - 1], b[j - 2]) &&
                           is_same_letter(a[i - 2], b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kTellingBeginning = 3;
  const auto begins_so = [&](const std::string& candidate) { return candidate.starts_with(name); };
  const auto longer = std::ranges::find_if(candidates, begins_so);
  if (name.size() >= kTellingBeginning && longer != candidates.end()) return *longer;
  if (name.empty()) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3);  // beyond it is another word
  for (const std::string& candidate : candidates) {
    const bool is_short = name.size() <= kTellingBeginning;
    if (candidate.empty() || (is_short && !is_same_letter(name[0], candidate[0]))) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance <= best_distance && distance < candidate.size()) {
      if (best.empty() || distance < best_distance) best = candidate;
      best_distance = std::min(best_distance, distance);
    }
  }
  return best;
}

}  // namespace fsdp
