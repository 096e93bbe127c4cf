#pragma once

namespace fsdp {

class Database;

// Throws std::runtime_error if a run in the database has an impossible figure. Such figures are not
// finite, negative counts, times before 1970 or after 9999, or JSON that is no object. The error
// names run, table, column, allowed values and a remedy. One such row would spoil every report of a
// class.
void require_plausible_figures(Database& database);

}  // namespace fsdp
