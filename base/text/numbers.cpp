// Writes numbers as text, the same under every locale.
#include "base/text/numbers.h"

#include <charconv>
#include <cmath>

namespace fsdp {
namespace {

template <typename... Format>
std::string text_of(double value, Format... format) {
  if (std::isnan(value)) return "nan";  // and not "-nan"
  std::string text(32, '\0');
  while (true) {
    const auto [end, error] =
        std::to_chars(text.data(), text.data() + text.size(), value, format...);
    if (error == std::errc()) {
      text.resize(static_cast<size_t>(end - text.data()));
      return text;
    }
    text.resize(2 * text.size());
  }
}

}  // namespace

std::string shortest(double value) { return text_of(value); }

std::string with_decimals(double value, int decimals) {
  return text_of(value, std::chars_format::fixed, decimals);
}

std::string with_exponent(double value, int decimals) {
  return text_of(value, std::chars_format::scientific, decimals);
}

}  // namespace fsdp
