#pragma once

#include <simdjson.h>

#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "contract/data/records.h"

namespace fsdp {

struct MalformedChat : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct MissingColumn {
  std::string column;
};

// Returns the turns of a chat. `joined` keeps texts that are joined from several parts. Throws
// MissingColumn if there is no list of turns, and MalformedChat if a turn cannot be read.
std::vector<Turn> read_turns(const simdjson::dom::object& chat, const ColumnsSpec& columns,
                             TurnCounts& counts, std::deque<std::string>& joined);

}  // namespace fsdp
