#pragma once

#include <string>
#include <string_view>
#include <vector>

// Runs of a file with overrides are a list of their own in the results. Its name is the
// experiment's and the overrides: "lab [batch.total=8, train.steps=20]".
namespace fsdp {

// Returns the experiment's own name if there are no overrides.
std::string list_name(const std::string& experiment, const std::vector<std::string>& overrides);

// Returns the name without the overrides.
std::string experiment_of_list(std::string_view list);

// Returns the overrides in the name of a list: {"batch.total=8", "train.steps=20"}.
std::vector<std::string> overrides_in(std::string_view list);

}  // namespace fsdp
