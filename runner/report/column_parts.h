#pragma once

#include <string_view>
#include <vector>

#include "runner/report/columns.h"

// What columns() adds to those that follow from members.
namespace fsdp {

struct DerivedColumns {
  std::string_view after;  // the name of the column that they stand behind
  std::vector<Column> columns;
};
std::vector<DerivedColumns> derived_columns();

struct OwnText {
  std::string_view column;
  std::function<std::string(const ReportRow&)> text;     // empty: the usual one
  std::function<bool(const ReportRow&)> is_shown_for{};  // empty: the usual rows
};
std::vector<OwnText> own_texts();

}  // namespace fsdp
