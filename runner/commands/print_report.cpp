#include "runner/commands/print_report.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

namespace fsdp {

void print_report(Store& store, std::string_view experiment, std::string title,
                  const ReportOptions& options) {
  Report report{.title = std::move(title),
                .rows = store.comparison(experiment),
                .per_rank = options.per_rank,
                .rank_rows = {},
                .results = options.results,
                .notes = {},
                .colour = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr};
  if (options.per_rank) report.rank_rows = store.comparison_per_rank(experiment);
  std::cout << render(options.format, report) << std::flush;
}

}  // namespace fsdp
