#include "runner/report/report.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "runner/report/formats.h"

namespace fsdp {

PreparedReport prepare(Format format, const Report& report) {
  const bool is_for_programs = format == Format::kCsv || format == Format::kJson;
  const RowKind usual = is_for_programs ? RowKind::kRun : RowKind::kSeries;
  return prepare(report, report.row_kind.value_or(usual));
}

std::string render(Format format, const Report& report) {
  return render(format, prepare(format, report));
}

std::vector<const ComparisonRow*> shown_runs(const PreparedReport& prepared) {
  std::vector<const ComparisonRow*> runs;
  std::set<const ComparisonRow*> known;
  const auto add = [&](const ComparisonRow* run) {
    if (known.insert(run).second) runs.push_back(run);
  };
  for (const ReportRow& row : prepared.rows) {
    if (row.is_series) {
      std::ranges::for_each(row.series->runs, add);
    } else {
      add(row.run);
    }
  }
  return runs;
}

std::string render(Format format, const PreparedReport& prepared) {
  switch (format) {
    case Format::kTable:
      return render_table(prepared);
    case Format::kMarkdown:
      return render_markdown(prepared);
    case Format::kCsv:
      return render_csv(prepared);
    case Format::kJson:
      return render_json(prepared);
    case Format::kLatex:
      return render_latex(prepared);
    case Format::kHtml:
      return render_html(prepared);
  }
  throw std::logic_error("unknown report format");
}

}  // namespace fsdp
