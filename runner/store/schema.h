#pragma once

#include <string>

namespace fsdp {

// What creates the tables and views of a results database. Columns of what ranks report and of what
// is computed from it follow from the visit_fields of their structs, settings from the run's
// specification: tests/golden/schema.sql is what comes of it, and a change there is a new version
// (migrations.h).
std::string schema();

}  // namespace fsdp
