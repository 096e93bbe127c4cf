#include "runner/plan/largest_value.h"

#include <algorithm>

namespace fsdp {
namespace {

// How far the next allowed value is looked for.
constexpr int64_t kWidestGap = 4096;

struct Tried {
  int64_t value;
  bool fits;
};

// At the first allowed value from `value` on, below `end`.
std::optional<Tried> try_from(int64_t value, int64_t end, const FitsAt& fits_at) {
  end = std::min(end, value + kWidestGap);
  for (; value < end; ++value) {
    if (const auto fits = fits_at(value)) return Tried{value, *fits};
  }
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> largest_value(int64_t most, const FitsAt& fits_at) {
  int64_t fits = 0;
  int64_t end = most + 1;  // does not fit, or is not allowed
  for (int64_t value = 1; value < end; value = 2 * fits) {
    const auto tried = try_from(value, end, fits_at);
    if (!tried || !tried->fits) {
      end = tried ? tried->value : value;
      break;
    }
    fits = tried->value;
  }
  while (end - fits > 1) {
    const int64_t middle = fits + (end - fits) / 2;
    const auto tried = try_from(middle, end, fits_at);
    if (tried && tried->fits) {
      fits = tried->value;
    } else {
      end = middle;
    }
  }
  return fits > 0 ? std::optional(fits) : std::nullopt;
}

}  // namespace fsdp
