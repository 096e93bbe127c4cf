// Reads which steps a list chooses. An item that names no step is never read.
#include "contract/spec/chosen_steps.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace fsdp {
namespace {

// The steps first, first + every, ... up to last.
struct Steps {
  int64_t first;
  int64_t last;
  int64_t every;
};

std::optional<int64_t> step_number(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 1) return std::nullopt;
  return number;
}

std::optional<Steps> steps_of(std::string_view item) {
  constexpr std::string_view kEvery = "every ";
  if (item.starts_with(kEvery)) {
    const auto every = step_number(item.substr(kEvery.size()));
    if (!every) return std::nullopt;
    return Steps{*every, std::numeric_limits<int64_t>::max(), *every};
  }
  const size_t dash = item.find('-');
  const auto first = step_number(item.substr(0, dash));
  const auto last = dash == item.npos ? first : step_number(item.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return Steps{*first, *last, 1};
}

}  // namespace

bool names_steps(std::string_view item) { return steps_of(item).has_value(); }

bool is_among_steps(const TextList& items, int64_t step) {
  return std::ranges::any_of(items, [&](const std::string& item) {
    const Steps steps = steps_of(item).value();
    return step >= steps.first && step <= steps.last && (step - steps.first) % steps.every == 0;
  });
}

}  // namespace fsdp
