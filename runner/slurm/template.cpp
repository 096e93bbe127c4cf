#include "runner/slurm/template.h"

#include <algorithm>
#include <optional>
#include <set>

#include "contract/text/config_error.h"
#include "contract/text/fields.h"

namespace fsdp {
namespace {

constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_";

struct Placeholder {
  size_t begin = 0;  // of its braces
  size_t end = 0;
  std::string name;
};

// Braces around anything but a name are the script's own.
std::optional<Placeholder> next_placeholder(std::string_view text, size_t from) {
  for (size_t begin = text.find("{{", from); begin != std::string_view::npos;
       begin = text.find("{{", begin + 1)) {
    const size_t name_end = std::min(text.find_first_not_of(kLetters, begin + 2), text.size());
    if (name_end > begin + 2 && text.substr(name_end).starts_with("}}")) {
      return Placeholder{.begin = begin,
                         .end = name_end + 2,
                         .name = std::string(text.substr(begin + 2, name_end - begin - 2))};
    }
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& place, const std::string& problem,
                         const std::vector<TemplateValue>& values) {
  std::string names;
  for (const TemplateValue& value : values) {
    if (!names.empty()) names += ", ";
    names += "{{" + value.name + "}}";
  }
  throw ConfigError(place, "slurm.template", problem + "; its names: " + names);
}

const TemplateValue& find_value(const std::vector<TemplateValue>& values, const std::string& name,
                                const std::string& place) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&](const TemplateValue& value) { return value.name == name; });
  if (found == values.end()) refuse(place, "{{" + name + "}} is not a name of it", values);
  return *found;
}

bool is_whole_line(std::string_view text, const Placeholder& placeholder) {
  return (placeholder.begin == 0 || text[placeholder.begin - 1] == '\n') &&
         placeholder.end < text.size() && text[placeholder.end] == '\n';
}

}  // namespace

std::string filled_template(std::string_view text, const std::vector<TemplateValue>& values,
                            const std::string& place) {
  std::string filled;
  std::set<std::string> seen;
  size_t from = 0;
  while (const std::optional<Placeholder> placeholder = next_placeholder(text, from)) {
    const TemplateValue& value = find_value(values, placeholder->name, place);
    seen.insert(value.name);
    filled += text.substr(from, placeholder->begin - from);
    filled += value.text;
    from = placeholder->end;
    if (value.text.empty() && is_whole_line(text, *placeholder)) ++from;
  }
  filled += text.substr(from);
  for (const TemplateValue& value : values) {
    if (!value.text.empty() && !seen.contains(value.name)) {
      refuse(place, "{{" + value.name + "}} is missing, whose value would have no effect", values);
    }
  }
  return filled;
}

}  // namespace fsdp
