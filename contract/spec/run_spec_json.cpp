#include "contract/spec/run_spec_json.h"

#include <simdjson.h>

#include <algorithm>
#include <vector>

#include "base/text/config_error.h"
#include "base/text/json.h"
#include "base/text/utf8.h"

namespace fsdp {
namespace {

using simdjson::dom::element;

template <typename T>
bool read_value(element json, T& value);

bool read_text(element json, std::string& text) {
  std::string_view found;
  if (json.get(found) != simdjson::SUCCESS) return false;
  text = found;
  return true;
}

bool read_list(element json, TextList& list) {
  simdjson::dom::array items;
  if (json.get(items) != simdjson::SUCCESS) return false;
  list.clear();
  for (const element item : items) {
    if (!read_value(item, list.emplace_back())) return false;
  }
  return true;
}

// Leaves `value` as it is if `json` is null. Returns false if `json` is of another kind.
template <typename T>
bool read_value(element json, T& value) {
  if constexpr (is_optional<T>) {
    value.reset();
    return json.is_null() || read_value(json, value.emplace());
  } else if (json.is_null()) {
    return true;
  } else if constexpr (std::same_as<T, std::string>) {
    return read_text(json, value);
  } else if constexpr (std::same_as<T, TextList>) {
    return read_list(json, value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return json.get(value) == simdjson::SUCCESS;
  } else {
    std::string text;
    if (!read_text(json, text)) return false;
    if constexpr (NamedEnum<T>) {
      const std::optional<T> named = enum_from_name<T>(text);
      if (named) value = *named;
      return named.has_value();
    } else if constexpr (std::same_as<T, AutoOrPath>) {
      value = {.is_auto = text == "auto", .is_never = text == "never", .path = {}};
      if (!value.is_given()) value.path = text;
      return true;
    } else {
      static_assert(std::same_as<T, std::filesystem::path>);
      value = text;
      return true;
    }
  }
}

bool has_form(const std::string& text, const TextForm* form) {
  if (!form || (text.empty() && form->may_be_empty)) return true;
  return !holds_control_characters(text) && form->matches(text);
}

// True unless `about` is the range of a number or the form of a text, and the value is not in it.
template <typename About, typename T>
bool is_allowed(const About& about, const T& value) {
  if constexpr (is_optional<T>) {
    return !value || is_allowed(about, *value);
  } else if constexpr (std::same_as<About, Range> && std::is_arithmetic_v<T>) {
    return about.contains(value);
  } else if constexpr (std::same_as<About, Range> && std::same_as<T, std::string>) {
    return has_form(value, about.form);
  } else if constexpr (std::same_as<About, Range> && std::same_as<T, TextList>) {
    return std::ranges::all_of(value, [&](auto& item) { return has_form(item, about.form); });
  } else {
    return true;
  }
}

class Reader {
 public:
  explicit Reader(const std::string& place) : place_(place) {}

  template <Fields Section>
  void read(element json, Section& section) {
    simdjson::dom::object object;
    if (json.get(object) != simdjson::SUCCESS) refuse(json);
    auto next = object.begin();  // keys in the order of writing are found at once
    Section::visit_fields(
        section, [&]<typename T>(const char* name, T& member, const auto&... about) {
          element value;
          if (next != object.end() && next.key() == name) {
            value = next.value();
            ++next;
          } else if (object.at_key(name).get(value) != simdjson::SUCCESS) {
            return;
          }
          names_.emplace_back(name);
          if constexpr (Fields<T>) {
            read(value, member);
          } else if (!read_value(value, member) || !(is_allowed(about, member) && ...)) {
            refuse(value);
          }
          names_.pop_back();
        });
  }

 private:
  [[noreturn]] void refuse(element json) const {
    constexpr size_t kMostShown = 100;
    std::string key;
    for (const char* name : names_) key += (key.empty() ? "" : ".") + std::string(name);
    throw ConfigError(place_, key,
                      shortened(simdjson::minify(json), kMostShown) +
                          " is not a value that this fsdp-run allows; another version wrote it, or "
                          "another program changed it");
  }

  const std::string& place_;
  std::vector<const char*> names_;  // of the sections and the key that are read
};

}  // namespace

RunSpec run_spec_from_json(std::string_view text, const std::string& place) {
  thread_local simdjson::dom::parser parser;  // keeps its memory from text to text
  element json;
  if (const auto error = parser.parse(text.data(), text.size()).get(json)) {
    throw ConfigError(place, "", std::string("is not JSON: ") + simdjson::error_message(error));
  }
  RunSpec spec;
  Reader(place).read(json, spec);
  return spec;
}

}  // namespace fsdp
