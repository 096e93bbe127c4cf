#include "runner/commands/report_answer.h"

#include <algorithm>
#include <array>

#include "contract/spec/yaml_value.h"
#include "contract/text/config_error.h"
#include "runner/commands/find_run.h"
#include "runner/commands/run_details.h"
#include "runner/report/difference.h"
#include "runner/report/formats.h"
#include "runner/report/published_figures.h"

namespace fsdp {
namespace {

// The title of the experiment, where it is one.
std::string title_of(const std::vector<std::string>& names, const Store& store) {
  if (names.size() != 1) return "";
  const std::vector<ExperimentRecord> known = store.experiments();
  return std::ranges::find(known, names.front(), &ExperimentRecord::name)->title;
}

using Answer = std::pair<std::string, ExitCode>;

Answer comparison(const Question& question, Store& store) {
  const ReportOptions& options = question.options;
  const std::vector<std::string> names = find_experiments(store, question.experiments);
  Report report = read_report(store, names, title_of(names, store), options);
  const PreparedReport prepared = prepare(options.format, report);
  if (options.format == Format::kHtml) {
    report.html = read_html_detail(store, shown_runs(prepared));  // `prepared` refers to `report`
  }
  return {render(options.format, prepared), ExitCode::kOk};
}

Answer beside_reference(const Question& question, Store& store) {
  const ReportOptions& options = question.options;
  const Reference reference = read_reference(question.reference);
  std::vector<std::string> words = question.experiments;
  if (words.empty()) words.push_back(reference.experiment);
  const std::vector<std::string> names = find_experiments(store, words);
  if (names.size() != 1) {
    throw ConfigError("--reference", "",
                      "is laid beside one experiment; allowed: one of " + joined(names));
  }
  Report report = read_report(store, names, reference.title, options);
  if (options.format == Format::kHtml) {
    report.html = read_html_detail(store, shown_runs(prepare(options.format, report)));
  }
  const auto [text, passed] = render_reference(options.format, report, reference);
  return {text, passed ? ExitCode::kOk : ExitCode::kRunFailed};
}

ComparisonRow find_row(Store& store, const std::string& word) {
  const RunRecord run = find_run(store, word);
  const std::vector<ComparisonRow> rows = store.comparison(run.experiment);
  const auto row = std::ranges::find(rows, run.id, &ComparisonRow::run);
  if (row != rows.end()) return *row;
  throw ConfigError("--compare", "",
                    "the run " + run_label(run) +
                        " is no longer in its experiment's table; allowed are those of `fsdp-run "
                        "report " +
                        run.experiment + " --per-run --columns run,point`");
}

Answer side_by_side(const Question& question, Store& store) {
  const ReportOptions& options = question.options;
  Report report{.title = "",
                .rows = {},
                .row_kind = {},
                .rank_rows = {},
                .view = {},
                .results = options.results,
                .notes = {},
                .colour = options.colour};
  for (const std::string& word : question.compare) report.rows.push_back(find_row(store, word));
  const ComparisonRow& first = report.rows[0];
  const ComparisonRow& second = report.rows[1];
  if (first.run == second.run) {
    throw ConfigError("--compare", "", "both words mean the run " + first.point);
  }
  report.notes.push_back("Columns in which the two differ. `fsdp-run diff " +
                         std::to_string(first.run) + ' ' + std::to_string(second.run) +
                         "` shows the keys that differ.");
  if (options.format == Format::kHtml) {
    report.html = read_html_detail(store, std::array{&first, &second});
  }
  return {render_differences(options.format, report), ExitCode::kOk};
}

}  // namespace

Answer answer(const Question& question, Store& store) {
  if (!question.compare.empty()) return side_by_side(question, store);
  if (!question.reference.empty()) return beside_reference(question, store);
  return comparison(question, store);
}

}  // namespace fsdp
