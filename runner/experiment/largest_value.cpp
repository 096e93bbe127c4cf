#include "runner/experiment/largest_value.h"

#include <algorithm>
#include <map>

namespace fsdp {
namespace {

constexpr int64_t kLookedAtBeside = 64;

struct Tried {
  int64_t value;
  bool fits;
};

// Tries the first allowed value from `value` on, below `end`.
std::optional<Tried> try_from(int64_t value, int64_t end, const FitsAt& fits_at) {
  for (; value < end; ++value) {
    if (const auto fit = fits_at(value)) return Tried{value, *fit == ValueFit::kFits};
  }
  return std::nullopt;
}

// Returns a function that asks for each value once.
FitsAt remembered(const FitsAt& fits_at) {
  return [&fits_at, known = std::map<int64_t, std::optional<ValueFit>>()](int64_t value) mutable {
    const auto found = known.find(value);
    if (found != known.end()) return found->second;
    return known[value] = fits_at(value);
  };
}

}  // namespace

int64_t widest_gap(const RunSpec& spec) {
  constexpr int64_t kOfOtherKeys = 4096;
  return std::max(kOfOtherKeys, total_batch(spec));
}

std::optional<int64_t> largest_value(int64_t most, int64_t gap, const FitsAt& asked) {
  const FitsAt fits_at = remembered(asked);
  int64_t fits = 0;
  int64_t end = most + 1;  // does not fit, or is not allowed
  for (int64_t value = 1; value < end; value = 2 * fits) {
    const auto tried = try_from(value, std::min(end, value + gap), fits_at);
    if (!tried || !tried->fits) {
      end = tried ? tried->value : value;
      break;
    }
    fits = tried->value;
  }
  while (end - fits > 1) {
    const int64_t middle = fits + (end - fits) / 2;
    const auto tried = try_from(middle, std::min(end, middle + gap), fits_at);
    if (tried && tried->fits) {
      fits = tried->value;
    } else {
      end = middle;
    }
  }
  fits = largest_beside(fits, most, fits_at);
  return fits > 0 ? std::optional(fits) : std::nullopt;
}

int64_t largest_beside(int64_t largest, int64_t most, const FitsAt& fits_at) {
  for (int64_t value = largest + 1; value <= std::min(most, largest + kLookedAtBeside); ++value) {
    const auto fit = fits_at(value);
    if (fit == ValueFit::kTooLarge) break;
    if (fit == ValueFit::kFits) largest = value;
  }
  return largest;
}

}  // namespace fsdp
