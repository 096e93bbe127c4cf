#include "runner/table/table.h"

#include <algorithm>

#include "runner/table/number_text.h"

namespace fsdp {
namespace {

constexpr size_t kHeadingWidth = 12;
constexpr double kJoulesPerKilojoule = 1'000;

// The unit that people see instead of the unit in the name. The heading leaves out the latter.
struct ShownUnit {
  std::string_view in_name;
  std::string_view shown;
};
constexpr ShownUnit kShownUnits[] = {
    {"bytes", "GiB"}, {"ms", "ms"}, {"gib", "GiB"}, {"percent", "%"}, {"joules", "kJ"}};
constexpr std::string_view kTotalTime = "_time_ms";  // names that end so are shown as 2 h 03 min

}  // namespace

std::optional<double> number_of(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&value)) return *real;
  return std::nullopt;
}

std::string text_of(const Value& value, std::string_view name) {
  if (const auto* words = std::get_if<std::string>(&value)) return *words;
  const std::optional<double> number = number_of(value);
  if (!number) return "-";
  if (name.ends_with(kTotalTime)) return duration(number);
  if (name.find("_bytes") != std::string_view::npos) return gibibytes(number);
  if (name.ends_with("_joules")) return three_digits(*number / kJoulesPerKilojoule);
  const auto* integer = std::get_if<int64_t>(&value);
  return integer != nullptr ? std::to_string(*integer) : three_digits(*number);
}

std::string heading_from_name(std::string_view name) {
  std::string heading;
  std::string_view unit;
  size_t line_begin = 0;
  if (name.ends_with(kTotalTime)) name.remove_suffix(std::string_view("_ms").size());
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("_."), name.size());
    const std::string_view word = name.substr(0, end);
    name.remove_prefix(std::min(end + 1, name.size()));
    const auto known = std::ranges::find(kShownUnits, word, &ShownUnit::in_name);
    if (known != std::end(kShownUnits)) {
      unit = known->shown;
      continue;
    }
    if (heading.size() - line_begin + word.size() >= kHeadingWidth) {
      heading += '\n';
      line_begin = heading.size();
    } else if (!heading.empty()) {
      heading += ' ';
    }
    heading += word;
  }
  return unit.empty() ? heading : heading + '\n' + std::string(unit);
}

std::string Column::heading_line() const {
  std::string line = heading;
  std::ranges::replace(line, '\n', ' ');
  return line;
}

Row& Table::add(std::vector<Cell> cells) {
  if (blocks.empty()) blocks.emplace_back();
  blocks.back().rows.emplace_back().cells = std::move(cells);
  return blocks.back().rows.back();
}

std::vector<std::string> Table::notes_and_reasons() const {
  std::vector<std::string> all = notes;
  all.insert(all.end(), reasons.begin(), reasons.end());
  return all;
}

}  // namespace fsdp
