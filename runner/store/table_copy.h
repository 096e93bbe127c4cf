#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runner/store/database.h"

namespace fsdp {

// Returns the tables that have a column `run`.
std::vector<std::string> tables_of_runs(Database& database);

// Copies the rows of a table into the table of the same name and columns; they replace rows with
// the same keys. Calls `change(column, value)` for the values of a row. Throws std::runtime_error
// if a value does not match its column's type.
void copy_table(Database& from, Database& into, const std::string& table,
                const std::function<void(const std::string&, SqlValue&)>& change = {});

}  // namespace fsdp
