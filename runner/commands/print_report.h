#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runner/report/report.h"
#include "runner/store/store.h"

namespace fsdp {

struct ReportOptions {
  std::filesystem::path results = "results";
  Format format = Format::kTable;
  bool per_rank = false;
};

// `experiment` empty: of every one in the results.
std::string report_text(Store& store, std::string_view experiment, std::string title,
                        const ReportOptions& options);
// The same to stdout.
void print_report(Store& store, std::string_view experiment, std::string title,
                  const ReportOptions& options);

}  // namespace fsdp
