#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/run_spec.h"

// The keys of a RunSpec by name and by number.
namespace fsdp {

// Every key of a RunSpec that holds a value, dotted ("strategy.kind"), in the order of the struct.
// A key's number is its position here.
const std::vector<std::string>& run_spec_keys();

// True if a key has this name and holds an integer, or an optional one.
bool is_integer_key(std::string_view key);

// The range of the key with this dotted name.
Range range_of_key(std::string_view key);

// Resets the keys of `spec` that have another value in `other` to their defaults.
void reset_differences(RunSpec& spec, const RunSpec& other);

struct RunSpecNames {
  std::map<std::string, size_t, std::less<>> numbers;                     // of keys with a value
  std::map<std::string, std::vector<std::string>, std::less<>> sections;  // "strategy" -> keys
  std::map<std::string, std::string, std::less<>> short_forms;  // "precision" -> its first key
};

const RunSpecNames& run_spec_names();

// True if a run has a key or a section of this dotted name.
bool is_key_of_a_run(std::string_view name);

// Returns the dotted key or section that an unknown `name` means: `name` itself, a key that ends
// like it ("train.epochs" for "epochs"), or the meaning of a synonym ("optimizer.learning_rate" for
// "lr"). Empty if there is none.
std::string key_meant(const std::string& name);

// Returns "; 'fp32' is a value of 'precision.kind'". Empty if no enumerated key has this value.
std::string hint_of_key_with_value(const std::string& value);

// Returns the text to add to "unknown key" for the dotted name `path`: "; allowed: kind, ranks; did
// you mean 'ranks'?". Looks for the wrong name in the deepest section of the path, and then
// anywhere (a `ranks` outside of `strategy`).
std::string allowed_instead_of(const std::string& path);

// Two keys or sections. A run has only one of them.
struct Alternatives {
  std::string_view one;
  std::string_view other;
};

const std::vector<Alternatives>& alternatives();

bool is_at_or_below(std::string_view key, std::string_view section);

// Returns the key that `spec` has instead of the key numbered `key`, which then means nothing:
// "model.source" for keys of model.config. Empty if there is none.
std::string_view taken_instead(const RunSpec& spec, size_t key);

// Calls visit(number, member, range) for every value below `section`, in the order of the struct.
template <typename Section, typename Visitor>
void visit_values(Section& section, size_t& number, Visitor& visit) {
  std::remove_const_t<Section>::visit_fields(
      section, [&](const char*, auto& member, const char*, const Range& range, auto...) {
        if constexpr (Fields<std::remove_cvref_t<decltype(member)>>) {
          visit_values(member, number, visit);
        } else {
          visit(number++, member, range);
        }
      });
}

template <typename Spec, typename Visitor>
void visit_values(Spec& spec, Visitor visit) {
  size_t number = 0;
  visit_values(spec, number, visit);
}

// True if a field of type T can be without a value.
template <typename T>
inline constexpr bool is_nullable =
    is_optional<T> || std::same_as<T, std::filesystem::path> || std::same_as<T, AutoOrPath>;

template <typename T>
bool is_given(const T& member) {
  if constexpr (is_optional<T>) return member.has_value();
  if constexpr (std::same_as<T, std::filesystem::path>) return !member.empty();
  if constexpr (std::same_as<T, AutoOrPath>) return member.is_given();
  return true;
}

}  // namespace fsdp
