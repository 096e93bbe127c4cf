#pragma once

#include <string>

#include "runner/diverge/first_difference.h"

namespace fsdp {

// Tells in lines what two runs first computed differently, where, by how much, and why.
std::string difference_text(const FirstDifference& difference, const std::string& one,
                            const std::string& other);

// Says what kind of fault it is.
std::string cause_text(const FirstDifference& difference);

}  // namespace fsdp
