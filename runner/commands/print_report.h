#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/report/report.h"
#include "runner/store/store.h"

namespace fsdp {

struct ReportOptions {
  std::filesystem::path results = "results";
  Format format = Format::kTable;
  std::optional<RowKind> row_kind{};
  View view{};
  std::optional<int64_t> since_unix_ms{};  // leaves out runs whose attempt was started before
  bool colour = false;                     // table
};

// Whether stdout is a terminal whose user wants colours.
bool stdout_has_colour();
// Of the terminal, or as COLUMNS says (watch sets it); 0: of any width.
size_t stdout_columns();

// What render() needs, but for Report::html, of these experiments; none: of every one in the
// results.
Report read_report(Store& store, const std::vector<std::string>& experiments, std::string title,
                   const ReportOptions& options);

}  // namespace fsdp
