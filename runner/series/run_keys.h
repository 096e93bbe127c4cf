#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text/fields.h"
#include "runner/store/comparison.h"

// The keys of runs in reports, and those that differ between two runs. Pure.
namespace fsdp {

// Returns the run's specification. Null if it cannot be read; it may be another person's text.
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
// specification cannot be read.
Keys keys_beyond(Effect least, const ComparisonRow& run);

// Returns the keys of `own` that have another value in `other`. If two alternatives differ, such as
// batch.total and batch.gradient_accumulation_steps, leaves out one that is null, else the second.
Keys changed_keys(const Keys& other, const Keys& own);

// Names runs outside their experiment's list: made with --set, or before the file was edited.
// Adds the changed keys to the names of these rows: "4xFSDP [train.steps=20]". Each row is compared
// with the listed run of its point, or else with the newest run. Adds the run's number if more than
// kMostNamedKeys differences, or none, are found, or if the name is taken. Moves each row behind
// the listed rows of its series. These rows no longer count as values of a doubled key.
void name_variants(std::vector<ComparisonRow>& rows);

}  // namespace fsdp
