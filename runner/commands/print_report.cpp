#include "runner/commands/print_report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "runner/report/doubling_notes.h"

namespace fsdp {

bool stdout_has_colour() {
  return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

Report read_report(Store& store, const std::vector<std::string>& experiments, std::string title,
                   const ReportOptions& options) {
  Report report{.title = std::move(title),
                .rows = {},
                .row_kind = options.row_kind,
                .rank_rows = {},
                .view = options.view,
                .results = options.results,
                .notes = {},
                .colour = options.colour};
  const bool per_rank = options.row_kind == RowKind::kRank;
  const std::vector<std::string> every{""};
  for (const std::string& experiment : experiments.empty() ? every : experiments) {
    std::ranges::move(store.comparison(experiment), std::back_inserter(report.rows));
    if (!per_rank) continue;
    std::ranges::move(store.comparison_per_rank(experiment), std::back_inserter(report.rank_rows));
  }
  if (options.since_unix_ms) {
    std::erase_if(report.rows, [&](const ComparisonRow& run) {
      return run.started_unix_ms.value_or(0) < *options.since_unix_ms;
    });
  }
  report.notes = doubling_notes(report.rows);
  return report;
}

}  // namespace fsdp
