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

// The turns of a record that is a chat. `joined` keeps what no text of the record holds whole.
// Throws MissingColumn if there is no list of turns, and MalformedChat if something in it is not
// read.
std::vector<Turn> read_turns(const simdjson::dom::object& chat, const ColumnsSpec& columns,
                             TurnCounts& counts, std::deque<std::string>& joined);

}  // namespace fsdp
