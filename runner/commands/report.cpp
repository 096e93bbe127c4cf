#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/system/unix_time.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "runner/commands/commands.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/commands/print_report.h"
#include "runner/report/columns.h"

namespace fsdp {
namespace {

struct ReportArguments {
  std::vector<std::string> experiments;    // names or files; none: every one in the results
  std::filesystem::path reference;         // empty, or a file of published figures
  std::vector<std::string> class_figures;  // none, or columns
  std::filesystem::path roster;            // empty, or a file of names
  std::string since;
  std::optional<int64_t> since_unix_ms;
  std::filesystem::path notes;  // empty, or a file of text
  Listed listed = Listed::kNow;
  Output<Format> output;
  Format format = Format::kTable;
  Report report;
};

using Answer = std::pair<std::string, ExitCode>;

// Returns the experiment's title if there is exactly one experiment.
std::string title_of(const std::vector<std::string>& names, const Store& store) {
  if (names.size() != 1) return "";
  const std::vector<ExperimentRecord> known = store.experiments();
  return std::ranges::find(known, names.front(), &ExperimentRecord::name)->title;
}

// Adds the details that a page shows of the report's runs.
void put_html_detail(ReportArguments& arguments, Store& store) {
  if (arguments.format != Format::kHtml) return;
  read_html_detail(arguments.report.html, store, shown_runs(arguments.format, arguments.report));
}

// Reads the rows of the experiments that `words` name. Returns the experiments' names.
std::vector<std::string> read_experiments(ReportArguments& arguments, Store& store,
                                          const std::vector<std::string>& words) {
  std::vector<std::string> names = find_experiments(store, words);
  read_rows(arguments.report, store, names, arguments.since_unix_ms, arguments.listed);
  return names;
}

Answer comparison(ReportArguments& arguments, Store& store) {
  Report& report = arguments.report;
  report.title = title_of(read_experiments(arguments, store, arguments.experiments), store);
  put_html_detail(arguments, store);
  return {render(arguments.format, report), ExitCode::kOk};
}

Answer beside_reference(ReportArguments& arguments, Store& store) {
  Report& report = arguments.report;
  const Reference reference = read_reference(arguments.reference);
  std::vector<std::string> words = arguments.experiments;
  if (words.empty()) words.push_back(reference.experiment);
  const std::vector<std::string> names = read_experiments(arguments, store, words);
  if (names.size() != 1) {
    throw ConfigError("--reference", "",
                      "is compared with one experiment; allowed: one of " + joined(names));
  }
  report.title = reference.title;
  put_html_detail(arguments, store);
  const auto [text, passed] = render_reference(arguments.format, report, reference);
  return {text, passed ? ExitCode::kOk : ExitCode::kRunFailed};
}

// Reads the options that only a page has.
void read_head(ReportArguments& arguments) {
  PageHead& head = arguments.report.html.head;
  const char* given = !head.title.empty()        ? "--title"
                      : !head.author.empty()     ? "--author"
                      : !arguments.notes.empty() ? "--notes"
                                                 : nullptr;
  if (given != nullptr && arguments.format != Format::kHtml) {
    throw ConfigError(given, "", "is for an HTML page; add --format html or --output FILE.html");
  }
  if (!arguments.notes.empty()) {
    head.notes = read_text_file(arguments.notes);
    if (!is_utf8(head.notes)) {
      throw ConfigError(arguments.notes.string(), "", "is not UTF-8; save the text as UTF-8");
    }
  }
}

// Returns the names in a file, one in a line.
std::set<std::string> read_roster(const std::filesystem::path& file) {
  std::set<std::string> names;
  std::string text = read_text_file(file);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  std::istringstream lines(std::move(text));
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    names.insert(line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1));
  }
  return names;
}

Answer of_class(ReportArguments& arguments, Store& store) {
  Report& report = arguments.report;
  read_experiments(arguments, store, arguments.experiments);
  report.row_kind = RowKind::kSeries;
  ClassMembers members;
  for (const ExperimentRecord& experiment : store.experiments()) {
    const std::string& source = experiment.source;
    if (source.empty()) continue;  // this folder has a row only if the experiment was run here
    const bool has_prefix = experiment.name.starts_with(source + '/');
    members.experiments[source].push_back(
        experiment.name.substr(has_prefix ? source.size() + 1 : 0));
  }
  if (!arguments.roster.empty()) members.roster = read_roster(arguments.roster);
  return {render_class(arguments.format, report, arguments.class_figures, members), ExitCode::kOk};
}

ExitCode report_command(ReportArguments& arguments) {
  Report& report = arguments.report;
  if (report.view.columns == std::vector<std::string>{"help"}) {
    std::cout << columns_reference();
    return ExitCode::kOk;
  }
  arguments.format = arguments.output.format();
  read_head(arguments);
  if (arguments.output.file.empty()) {
    report.colour = stdout_has_colour();
    report.width = stdout_columns();
  }
  if (!arguments.since.empty()) {
    arguments.since_unix_ms = moment_unix_ms(arguments.since, now_unix_ms(), "--since");
  }
  Store store = existing_results(report.results);
  refresh_open_jobs(store, report.results);
  const auto [text, code] = !arguments.reference.empty()       ? beside_reference(arguments, store)
                            : !arguments.class_figures.empty() ? of_class(arguments, store)
                                                               : comparison(arguments, store);
  write_output(arguments.output.file, text);
  return code;
}

void add_view_options(CLI::App& command, View& view) {
  add_option(command, "--columns A,B,...", view.columns,
             "Show these, in this order; +NAME adds one to the usual columns; help lists all")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("--wide", view.wide, "Every usual column, however wide the table becomes");
  add_option(command, "--sort COLUMN", view.sort, "By this column; -COLUMN: the largest first");
  add_option(command, "--where CONDITION", view.where,
             "\"COLUMN OP VALUE\", OP one of = != < <= > >= ~ (contains); may be repeated")
      ->allow_extra_args(false);
  add_option(command, "--baseline POINT", view.baseline,
             "Percentages are of this point (default: the first row that finished)");
  add_option(command, "--group COLUMN", view.group,
             "One block of rows, with its own baseline, for each value");
}

void add_page_options(CLI::App& command, ReportArguments& arguments) {
  add_option(command, "--title TEXT", arguments.report.html.head.title,
             "html: the page's title (default: the experiment's)");
  add_option(command, "--author TEXT", arguments.report.html.head.author,
             "html: who hands it in, and for which course");
  add_option(command, "--notes FILE", arguments.notes, "html: your own text, in paragraphs");
}

// Adds the options that choose what a row is. At most one may be given.
void add_row_options(CLI::App& command, std::optional<RowKind>& kind) {
  const auto add = [&](const char* name, RowKind value, const char* description) {
    return command.add_flag_callback(
        name, [&kind, value] { kind = value; }, description);
  };
  CLI::Option* per_run =
      add("--per-run", RowKind::kRun, "A row per run, repeats too (default of csv and json)");
  CLI::Option* per_series =
      add("--per-series", RowKind::kSeries, "A row for all repeats of a point (default of others)");
  add("--per-rank", RowKind::kRank, "Memory and time of each rank")
      ->excludes(per_run)
      ->excludes(per_series);
  per_run->excludes(per_series);
}

}  // namespace

CommandFunction add_report_command(CLI::App& command) {
  const auto arguments = std::make_shared<ReportArguments>();
  Report& report = arguments->report;
  report.results = "results";
  command.footer(R"(Examples:
  fsdp-run report                               every experiment in results/
  fsdp-run report experiments/lab.yaml chess    by file, or by name
  fsdp-run report lab --columns point,ranks,tokens_per_second --sort -ranks
  fsdp-run report lab --columns +gpu_hours      beside the usual columns
  fsdp-run report lab --where "ranks = 4" --where "loss_last < 2"
  fsdp-run report lab --baseline 4xDDP --group batch_size_per_rank
  fsdp-run report lab --output lab.html         or .md, .tex, .csv, .json
  fsdp-run report lab --output lab.html --author "Ada, CS 101" --notes notes.txt
  fsdp-run report lab --all                     with the lists of --set
  fsdp-run report "lab [train.steps=20]"        the runs made with this --set
  fsdp-run report lab --class tokens/s,memory   who measured what, after merge
  fsdp-run report lab --class tokens/s --roster names.txt
  fsdp-run report --reference results/reference/lab_a100x4.yaml
)");
  command
      .add_option("EXPERIMENT", arguments->experiments,
                  "Experiments: names or files (default: all)")
      ->option_text("...");
  add_output_options(command, arguments->output);
  add_view_options(command, report.view);
  add_option(command, "--reference FILE", arguments->reference,
             "Published figures beside the measured ones; exit status 1 when one is outside "
             "its tolerance, or none could be judged");
  add_option(command, "--class A,B,...", arguments->class_figures,
             "After merge: a table for each of these columns (--wide: all usual ones), with a row "
             "per person and a column per point; who has no result, and what differs")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes("--columns");
  add_option(command, "--roster FILE", arguments->roster,
             "With --class: a file of names, one in a line; tells who has no results")
      ->needs("--class");
  command.add_flag_callback(
      "--all,--variants", [arguments] { arguments->listed = Listed::kEver; },
      "Also the lists of runs made with --set, and runs of before the file was edited, named by "
      "what changed");
  add_option(command, "--since TIME", arguments->since,
             "Only runs started since: 2026-11-21, 2026-11-21T14:30, 2h, 3d");
  add_row_options(command, report.row_kind);
  add_page_options(command, *arguments);
  add_results_option(command, report.results);
  return [arguments] { return report_command(*arguments); };
}

}  // namespace fsdp
