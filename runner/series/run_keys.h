#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "runner/store/comparison.h"

// The keys of runs in reports, and those that differ between two runs. Pure.
namespace fsdp {

// Returns the run's specification, written here or elsewhere. Null if it cannot be read.
nlohmann::json row_spec(const ComparisonRow& run);

// Returns the text at a place of a specification, such as "/model/source". Empty: there is none.
std::string text_at(const nlohmann::json& spec, const char* pointer);

// Returns the method that trains the run, such as "lora". A specification without the key is of a
// version that had only "full".
std::string method_of(const nlohmann::json& spec);

// Returns `spec` without these places.
using JsonPointers = std::vector<nlohmann::json::json_pointer>;
nlohmann::json without(nlohmann::json spec, const JsonPointers& places);

// Texts name at most this many keys and count the others.
inline constexpr size_t kMostNamedKeys = 3;

// Values by dotted name.
using Keys = std::map<std::string, std::string>;

// Returns the run's keys with an effect greater than `least`, except paths. Empty if the
// specification was written elsewhere and cannot be read.
Keys keys_beyond(Effect least, const ComparisonRow& run);

// Returns the keys of `own` whose values differ from those in `other`. If one key follows from
// another, only the given key is included, or the first of them.
Keys changed_keys(const Keys& other, const Keys& own);

// Names runs outside their experiment's list: made with --set, or before the file was edited.
// Adds the changed keys to the names of these rows: "4xFSDP [train.steps=20]". Each is compared
// with the listed run of its point, or else with the newest run. The run's number is added if more
// than kMostNamedKeys differences, or none, are found, or if the name is taken. Each row follows
// the listed rows of its point, and is not a value of a doubled key.
void name_variants(std::vector<ComparisonRow>& rows);

}  // namespace fsdp
