#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runner/store/database.h"

namespace fsdp {

// All that say something of a run.
std::vector<std::string> tables_of_runs(Database& database);

// Takes the rows of a table over into the table of the same name and columns, where they replace
// those with their keys. `change(column, value)` is called for the values of a row. Throws
// std::runtime_error when one is not of its column's type.
void copy_table(Database& from, Database& into, const std::string& table,
                const std::function<void(const std::string&, SqlValue&)>& change = {});

}  // namespace fsdp
