#pragma once

namespace fsdp {

class Database;

// Throws std::runtime_error if a figure of a run in the database is one that nothing measures: not
// finite, below 0 where it counts something, a time before 1970 or after 9999, or JSON that is no
// object. The error names run, table, column, what is allowed, and what to do. One such row among
// a class's results would spoil every report of them.
void require_plausible_figures(Database& database);

}  // namespace fsdp
