#pragma once

#include <cstdint>
#include <string_view>

#include "base/text/fields.h"

// Steps of a run that a list of text chooses: "7", "3-9", "every 10".
namespace fsdp {

bool names_steps(std::string_view item);

// Each item is what names_steps() accepts.
bool is_among_steps(const TextList& items, int64_t step);

}  // namespace fsdp
