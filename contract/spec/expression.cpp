#include "contract/spec/expression.h"

#include <charconv>
#include <cmath>

#include "base/text/config_error.h"
#include "contract/spec/run_spec_keys.h"

namespace fsdp {
namespace {

constexpr const char* kGrammar =
    "; allowed: references and numbers joined by * and /, such as ${batch.size_per_rank} * 1e-4";

void skip_spaces(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
}

// Takes the text up to the first of `ends` from `rest`. Returns it without spaces around it.
std::string_view take_until(std::string_view ends, std::string_view& rest) {
  const size_t end = std::min(rest.find_first_of(ends), rest.size());
  std::string_view token = rest.substr(0, end);
  rest.remove_prefix(end);
  skip_spaces(token);
  while (token.ends_with(' ')) token.remove_suffix(1);
  return token;
}

template <typename T>
std::string text_of_member(const T& member) {
  if constexpr (is_optional<T>) {
    return member ? text_of_member(*member) : "";
  } else if constexpr (std::same_as<T, std::string>) {
    return member;
  } else if constexpr (std::same_as<T, std::filesystem::path>) {
    return member.string();
  } else if constexpr (std::same_as<T, AutoOrPath>) {
    return member.is_auto ? "auto" : member.path.string();
  } else {
    return yaml_text(member);
  }
}

// Writes whole numbers without an exponent, so that an integer key may have this value.
std::string text_of_number(double value) {
  constexpr double kLargestExactInteger = 9007199254740992;  // 2^53
  if (value == std::floor(value) && std::fabs(value) <= kLargestExactInteger) {
    return std::to_string(static_cast<int64_t>(value));
  }
  return shortest(value);
}

}  // namespace

bool Expression::is_meant(const YAML::Node& value) {
  return value.IsScalar() && value.Scalar().find("${") != std::string::npos;
}

Expression::Expression(const YamlEntry& entry)
    : key_(entry.path), text_(entry.value.Scalar()), place_(entry.value_place()) {
  std::string_view rest = text_;
  bool is_divisor = false;
  while (true) {
    skip_spaces(rest);
    factors_.push_back(read_factor(rest));
    factors_.back().is_divisor = is_divisor;
    skip_spaces(rest);
    if (rest.empty()) return;
    if (rest.front() != '*' && rest.front() != '/') {
      refuse("is followed by '" + std::string(rest) + "'" + kGrammar);
    }
    is_divisor = rest.front() == '/';
    rest.remove_prefix(1);
  }
}

void Expression::refuse(const std::string& problem) const {
  throw ConfigError(place_, key_, "'" + text_ + "': " + problem);
}

Expression::Factor Expression::read_factor(std::string_view& rest) const {
  if (!rest.starts_with("${")) {
    const std::string_view token = take_until("*/ ", rest);
    Factor factor;
    const auto [end, error] =
        std::from_chars(token.data(), token.data() + token.size(), factor.number);
    if (token.empty() || error != std::errc() || end != token.data() + token.size() ||
        !std::isfinite(factor.number)) {
      refuse("'" + std::string(token) + "' is neither a reference nor a number" + kGrammar);
    }
    return factor;
  }
  rest.remove_prefix(2);
  const std::string name(take_until("}", rest));
  if (rest.empty()) refuse("'${" + name + "' is not closed; allowed: ${KEY}");
  rest.remove_prefix(1);
  const RunSpecNames& names = run_spec_names();
  if (const auto section = names.sections.find(name); section != names.sections.end()) {
    refuse("'" + name + "' is no value" + (name.empty() ? "" : " but a section") +
           "; allowed: one of its keys, dotted: " + joined(section->second));
  }
  const auto number = names.numbers.find(name);
  if (number == names.numbers.end()) {
    refuse("'" + name + "': unknown key" + allowed_instead_of(name));
  }
  return {.key = number->second};
}

std::vector<size_t> Expression::keys() const {
  std::vector<size_t> keys;
  for (const Factor& factor : factors_) {
    if (factor.key) keys.push_back(*factor.key);
  }
  return keys;
}

std::string Expression::text_of(size_t key, const RunSpec& spec) const {
  std::string text;
  visit_values(spec, [&](size_t number, const auto& member, const Range&) {
    if (number == key && is_given(member)) text = text_of_member(member);
  });
  const std::string& name = run_spec_keys()[key];
  if (const std::string_view taken = taken_instead(spec, key); !taken.empty()) {
    refuse("'" + name + "' means nothing here, because '" + std::string(taken) +
           "' is given; refer to another key, or write the value");
  }
  if (text.empty()) {
    refuse("'" + name + "' has no value in this run; give it one, or write this value instead");
  }
  return text;
}

long double Expression::number_of(const Factor& factor, const RunSpec& spec) const {
  if (!factor.key) return factor.number;
  const std::string text = text_of(*factor.key, spec);
  long double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse("'" + run_spec_keys()[*factor.key] + "' is '" + text +
           "', which is not a number; allowed: numbers, or the reference alone");
  }
  return number;
}

// Computes in long double, so that 3 * 1e-4 is the same number as 3e-4.
std::string Expression::result(const RunSpec& spec) const {
  if (factors_.size() == 1 && factors_[0].key) return text_of(*factors_[0].key, spec);
  long double result = 1;
  for (const Factor& factor : factors_) {
    const long double number = number_of(factor, spec);
    result = factor.is_divisor ? result / number : result * number;
  }
  if (!std::isfinite(static_cast<double>(result))) {
    refuse("is not a finite number; does it divide by 0?");
  }
  return text_of_number(static_cast<double>(result));
}

}  // namespace fsdp
