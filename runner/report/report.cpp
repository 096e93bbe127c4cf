#include "runner/report/report.h"

#include <stdexcept>

#include "runner/report/formats.h"

namespace fsdp {

std::string render(Format format, const Report& report) {
  const bool is_for_programs = format == Format::kCsv || format == Format::kJson;
  const RowKind usual = is_for_programs ? RowKind::kRun : RowKind::kSeries;
  return render(format, prepare(report, report.row_kind.value_or(usual)));
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
