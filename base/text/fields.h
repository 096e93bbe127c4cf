#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/text/numbers.h"

// Defines each struct of the contract once, for readers, writers and documentation.
//
// A struct has a static member
//
//   static void visit_fields(auto& self, auto&& visit) {
//     visit("ranks", self.ranks, "Number of processes.", at_least(1));
//   }
//
// A visitor is anything callable as visit(name, member, ...). The sentence is for the reference
// documentation, and may be missing. A Range and an Effect may follow. Readers of YAML, writers of
// YAML and JSON, and the reference documentation are visitors.
namespace fsdp {

// A form that text must have.
struct TextForm {
  std::string_view description;       // "one line of text"
  std::string_view pattern;           // a regular expression of the whole text
  std::string_view dropped_prefix{};  // may precede the text and is dropped
  bool may_be_empty = true;
  bool (*holds)(std::string_view text) = nullptr;  // null: the text is as the pattern says

  // `text` has no control characters, which no form has, and no dropped prefix.
  bool matches(std::string_view text) const;
};

// The names on a Hugging Face hub that a key accepts instead of a path (see hub_name.h).
enum class HubNames {
  kNone,
  kModel,      // a repository of a model
  kTokenizer,  // a repository of a model, or a file in a repository
  kFile,       // a file or folder in a repository
};

// The values that a field may hold: numbers within limits, text of a form. Other types ignore it.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_excluded = false;
  bool maximum_excluded = false;
  const TextForm* form = nullptr;  // null: any text
  HubNames hub_names = HubNames::kNone;

  // Exact for every double and int64_t.
  bool contains(long double value) const;
  // "at least 1", "greater than 0 and at most 1"; empty if everything is allowed.
  std::string description() const;
};

// The part of a run that a key affects. A key without an Effect affects the losses.
enum class Effect {
  kHowOnly,            // only how a run is carried out, not its identity
  kNotLosses,          // the run's identity, but not its losses
  kLossesWithDropout,  // the run's identity, and its losses if the run has dropout
};

inline Range any_value() { return {}; }
inline Range path_or(HubNames names) { return {.hub_names = names}; }
inline Range at_least(double minimum) { return {.minimum = minimum}; }
inline Range greater_than(double minimum) { return {.minimum = minimum, .minimum_excluded = true}; }
inline Range above_to(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum, .minimum_excluded = true};
}
inline Range from_to(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}
inline Range from_to_below(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum, .maximum_excluded = true};
}

using std::string_view_literals::operator""sv;

// An enum of the contract has an overload `enum_names(E)`, found by argument-dependent look-up. It
// returns the names in the order of the values, which start at 0.
template <typename E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  enum_names(e);
};

template <NamedEnum E>
std::string_view name_of(E value) {
  return enum_names(E{})[static_cast<size_t>(value)];
}

// Returns the names with the unit of their fields: "parameters_bytes".
template <NamedEnum E>
std::array<std::string, enum_names(E{}).size()> names_with_unit(std::string_view unit) {
  std::array<std::string, enum_names(E{}).size()> names;
  for (size_t i = 0; i < names.size(); ++i) {
    names[i] = std::string(enum_names(E{})[i]).append("_").append(unit);
  }
  return names;
}

template <NamedEnum E>
std::optional<E> enum_from_name(std::string_view name) {
  const auto names = enum_names(E{});
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// Returns the last of `parts` that has the type Part, such as a field's Range or Effect. nullopt if
// there is none.
template <typename Part, typename... Parts>
std::optional<Part> part_of(const Parts&... parts) {
  std::optional<Part> found;
  [[maybe_unused]] const auto look_at = [&]<typename T>(const T& part) {
    if constexpr (std::same_as<T, Part>) found = part;
  };
  (look_at(parts), ...);
  return found;
}

struct IgnoreField {
  template <typename... Arguments>
  void operator()(Arguments&&...) const {}
};

// A struct with visit_fields: a section of a specification, an event, ...
template <typename T>
concept Fields = requires(T& self) {
  T::visit_fields(self, IgnoreField{});
};

// Returns how many bytes behind the beginning of `object` its member is.
template <Fields Struct, typename T>
ptrdiff_t place_of_member(const Struct& object, const T& member) {
  return reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(&object);
}

// Returns the member of type T at this place, as place_of_member() gives it.
template <typename T, Fields Struct>
T& member_at(Struct& object, ptrdiff_t place) {
  return *reinterpret_cast<T*>(reinterpret_cast<char*>(&object) + place);
}
template <typename T, Fields Struct>
const T& member_at(const Struct& object, ptrdiff_t place) {
  return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(&object) + place);
}

// A section that may be written as the value of its first key: `wrap: none` for
// `wrap: {policy: none}`.
template <typename T>
concept HasShortForm = Fields<T> && T::kHasShortForm;

// A path, the word `auto` or `never`, or none of them (empty path).
struct AutoOrPath {
  bool is_auto = false;
  bool is_never = false;
  std::filesystem::path path;

  bool is_given() const { return is_auto || is_never || !path.empty(); }
  bool operator==(const AutoOrPath&) const = default;
};

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
inline constexpr bool is_variant = false;
template <typename... T>
inline constexpr bool is_variant<std::variant<T...>> = true;

// A list of text. Each item has the form that the field's range gives.
using TextList = std::vector<std::string>;

// Returns the first candidate that begins with `name`, if `name` has three letters or more.
// Otherwise returns the nearest by edit distance, or empty text if none is near.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace fsdp
