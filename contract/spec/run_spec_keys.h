#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "contract/spec/run_spec.h"

// The keys of a RunSpec by name and by number.
namespace fsdp {

// Every key of a RunSpec that holds a value, dotted ("strategy.kind"), in the order of the struct;
// a key's number is its place here.
const std::vector<std::string>& run_spec_keys();

// Whether a key has this name and holds an integer, or optionally one.
bool is_integer_key(std::string_view key);

// The range of the key of this dotted name.
Range range_of_key(std::string_view key);

// Gives the keys of `spec` that have another value in `other` those of a new RunSpec.
void reset_differences(RunSpec& spec, const RunSpec& other);

struct RunSpecNames {
  std::map<std::string, size_t, std::less<>> numbers;                     // of what holds a value
  std::map<std::string, std::vector<std::string>, std::less<>> sections;  // "strategy" -> keys
  std::map<std::string, std::string, std::less<>> short_forms;  // "precision" -> its first key
};

const RunSpecNames& run_spec_names();

// Whether a run has a key or a section of this dotted name.
bool is_key_of_a_run(std::string_view name);

// Returns the key or section that `name` means where it is not known, dotted: `name` itself, a key
// that ends so ("train.epochs" of "epochs"), or the meaning of a synonym. Empty if there is none.
//
// For "lr": "optimizer.learning_rate".
std::string key_meant(const std::string& name);

// "; 'fp32' is a value of 'precision.kind'"; empty if no key has this value of a few.
std::string hint_of_key_with_value(const std::string& value);

// What to add to "unknown key" for the dotted name `path`: "; allowed: kind, ranks; did you mean
// 'ranks'?". Looks for the wrong name in the deepest section that the path enters and, failing
// that, anywhere (a `ranks` outside of `strategy`).
std::string allowed_instead_of(const std::string& path);

// Two keys, or sections, of which a run has one.
struct Alternatives {
  std::string_view one;
  std::string_view other;
};

const std::vector<Alternatives>& alternatives();

bool is_at_or_below(std::string_view key, std::string_view section);

// The key that `spec` has instead of the one numbered `key`, whose value means nothing then:
// "model.source" for model.config's. Empty when there is none.
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

// Whether a field of type T can be without a value.
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
