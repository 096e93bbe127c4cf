#include "runner/commands/print_report.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "runner/commands/html_detail.h"

namespace fsdp {

std::string report_text(Store& store, std::string_view experiment, std::string title,
                        const ReportOptions& options) {
  Report report{.title = std::move(title),
                .rows = store.comparison(experiment),
                .per_rank = options.per_rank,
                .rank_rows = {},
                .results = options.results,
                .notes = {},
                .colour = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr};
  if (options.per_rank) report.rank_rows = store.comparison_per_rank(experiment);
  if (options.format == Format::kHtml) report.html = read_html_detail(store, report.rows);
  return render(options.format, report);
}

void print_report(Store& store, std::string_view experiment, std::string title,
                  const ReportOptions& options) {
  std::cout << report_text(store, experiment, std::move(title), options) << std::flush;
}

}  // namespace fsdp
