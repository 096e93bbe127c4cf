#pragma once

#include <string>

namespace fsdp {

// The documentation of every key of an experiment file, as text: key, type, default, allowed values
// and a sentence. Made from the definitions that the loader uses.
std::string experiment_reference();

}  // namespace fsdp
