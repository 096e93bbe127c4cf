#include "runner/commands/report.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "base/system/program.h"
#include "base/system/unix_time.h"
#include "base/text/utf8.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/report/columns.h"
#include "runner/series/run_keys.h"
#include "runner/store/list_name.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

// Reads the losses of finished runs that must have the same losses as another run. Reads none if
// that would take seconds.
void read_losses(std::vector<ComparisonRow>& rows, const Store& store) {
  constexpr double kMostSteps = 300'000;
  std::map<std::string, std::vector<ComparisonRow*>> must_be_equal;
  for (ComparisonRow& row : rows) {
    const bool is_known = row.status == RunStatus::kFinished && !row.loss_digest.empty();
    if (is_known) must_be_equal[row.loss_digest].push_back(&row);
  }
  std::erase_if(must_be_equal, [](const auto& equal) { return equal.second.size() < 2; });
  double steps = 0;
  for (const auto& [digest, equal] : must_be_equal) {
    for (const ComparisonRow* row : equal) steps += static_cast<double>(row->steps.value_or(0));
  }
  if (steps > kMostSteps) return;
  for (const auto& [digest, equal] : must_be_equal) {
    for (ComparisonRow* row : equal) {
      row->losses = store.losses(row->run, static_cast<int>(*row->attempt));
    }
  }
}

// Reads the uses of memory at the peaks of finished runs.
void read_memory_uses(std::vector<ComparisonRow>& rows, const Store& store) {
  for (ComparisonRow& row : rows) {
    if (row.status != RunStatus::kFinished) continue;
    const auto peak = store.memory_peak(row.run, static_cast<int>(*row.attempt));
    // A GPU's allocator rounds sizes up.
    const bool is_of_row =
        peak && (row.spec.device == DeviceKind::kCuda
                     ? peak->memory_allocated_bytes_max <= row.memory_allocated_bytes_max
                     : peak->memory_allocated_bytes_max == row.memory_allocated_bytes_max);
    if (is_of_row) row.memory_by_use = peak->by_use;
  }
}

// Names the measured runs that have left their lists, or removes them and notes how to show them.
void put_variants(Report& report, Listed listed) {
  const auto is_variant = [](const ComparisonRow& row) { return !row.current; };
  std::erase_if(report.rows, [&](auto& row) { return is_variant(row) && !row.attempt; });
  const auto count = std::ranges::count_if(report.rows, is_variant);
  if (count == 0) return;
  if (listed == Listed::kNow) {
    std::erase_if(report.rows, is_variant);
    report.notes.push_back(
        fmt::format("Not shown: {} outside the experiment's list, made before the file was edited "
                    "or with another profile. `fsdp-run report --all` shows all runs.",
                    count == 1 ? "1 run" : fmt::format("{} runs", count)));
    return;
  }
  name_variants(report.rows);
  std::map<int64_t, size_t> places;
  for (const ComparisonRow& row : report.rows) places.emplace(row.run, places.size());
  std::erase_if(report.rank_rows, [&](const RankRow& rank) { return !places.contains(rank.run); });
  std::ranges::stable_sort(report.rank_rows, {},
                           [&](const RankRow& rank) { return places.at(rank.run); });
  for (RankRow& rank : report.rank_rows) rank.point = report.rows[places.at(rank.run)].point;
  report.notes.push_back(
      "[...]: what differs in runs that are no longer in the experiment's list.");
}

// Returns the lists of these experiments with overrides, except those that `names` holds.
std::vector<std::string> lists_beside(const Store& store, const std::vector<std::string>& names) {
  std::vector<std::string> lists;
  for (const ExperimentRecord& record : store.experiments()) {
    const std::string plain = experiment_of_list(record.name);
    const bool is_beside = plain != record.name && is_among(names, plain);
    if (is_beside && !is_among(names, record.name)) lists.push_back(record.name);
  }
  return lists;
}

Curve training_loss(const Store& store, const ComparisonRow& run) {
  return thinned(
      mapped(store.losses(run.run, static_cast<int>(*run.attempt)), [](const StepLoss& step) {
        return CurvePoint{.x = static_cast<double>(step.step), .y = step.loss};
      }));
}

// Returns rank 0's loss from the run's first step on. Every rank reports the same loss.
Curve validation_loss(const Store& store, const ComparisonRow& run) {
  std::vector<CurvePoint> points;
  for (const Stretch& stretch : store.stretches(run.run, static_cast<int>(*run.attempt))) {
    for (const auto& event : store.events<EvaluationDone>(run.run, stretch.attempt)) {
      if (event.rank != 0 || event.body.step > stretch.last_step) continue;
      points.push_back({.x = static_cast<double>(event.body.step), .y = event.body.loss});
    }
  }
  return thinned(std::move(points));
}

// Returns a curve per device that reports its utilization, in the order of hosts and names.
std::vector<UtilizationCurve> utilization(const std::vector<Recorded<DeviceSample>>& samples,
                                          int64_t started_unix_ms,
                                          const std::vector<RunStarted>& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<CurvePoint>> points;
  for (const Recorded<DeviceSample>& sample : samples) {
    const double seconds =
        (static_cast<double>(sample.time_unix_ms) - static_cast<double>(started_unix_ms)) / 1000;
    points[{sample.body.host, sample.body.device}].push_back(
        {.x = seconds, .y = sample.body.utilization_percent});
  }
  std::vector<UtilizationCurve> curves;
  for (auto& [device, series] : points) {
    if (std::ranges::none_of(series, [](auto& point) { return point.y.has_value(); })) continue;
    const auto& [host, name] = device;
    const bool own = std::ranges::any_of(
        ranks, [&](const RunStarted& rank) { return rank.host == host && rank.gpu == name; });
    curves.push_back(
        {.host = host, .device = name, .own = own, .percent = thinned(std::move(series))});
  }
  return curves;
}

// Reads what ranks did in traced steps. The page says nothing of a trace that cannot be read.
void read_traces(RunDetail& detail, const Store& store, const std::filesystem::path& results,
                 const ComparisonRow& run) {
  constexpr size_t kMostRanks = 8;
  constexpr size_t kMostSteps = 2;
  constexpr size_t kMostSpans = 200'000;  // a browser takes seconds to draw more
  try {
    detail.traces = traces_of(store, run, results);
  } catch (const std::runtime_error& error) {
    std::cerr << "fsdp-run: " << visible_line(error.what()) << std::endl;
    return;
  }
  detail.step_memory = step_memory(detail.traces);
  if (detail.traces.size() > kMostRanks) detail.traces.resize(kMostRanks);
  size_t spans = 0;
  for (auto& [rank, trace] : detail.traces) {
    if (trace.steps.size() > kMostSteps) trace.steps.resize(kMostSteps);
    for (const StepTrace& step : trace.steps) spans += step.spans.size();
  }
  if (spans > kMostSpans) detail.traces.clear();
}

RunDetail read_run(Store& store, const std::filesystem::path& results, const ComparisonRow& run) {
  RunDetail detail;
  detail.run = run.run;
  detail.specification = store.spec_text(run.run);
  detail.attempts = store.attempts(run.run);
  if (!run.attempt) return detail;
  const int attempt = static_cast<int>(*run.attempt);
  detail.provenance = store.provenance(run.run, attempt);
  detail.rank_facts = store.rank_facts(run.run, attempt);
  for (const auto& checkpoint : store.events<CheckpointDone>(run.run, attempt)) {
    const std::filesystem::path folder = results / run.folder / checkpoint.body.path;
    if (std::filesystem::exists(folder)) detail.checkpoints.push_back(checkpoint.body.path);
  }
  detail.memory_peak = store.memory_peak(run.run, attempt);
  read_traces(detail, store, results, run);
  detail.training_loss = training_loss(store, run);
  detail.validation_loss = validation_loss(store, run);
  const auto shown = std::ranges::find(detail.attempts, attempt, &AttemptRecord::attempt);
  if (shown != detail.attempts.end()) {
    detail.utilization = utilization(store.events<DeviceSample>(run.run, attempt),
                                     shown->started_unix_ms, detail.rank_facts);
  }
  return detail;
}

// Returns the command that runs the list again, from the current folder.
std::string command_again(const ExperimentRecord& list) {
  const auto near = list.file.lexically_proximate(std::filesystem::current_path());
  const bool is_below = !near.string().starts_with("..");
  std::string command = "./fsdp-run " + shell_quoted((is_below ? near : list.file).string());
  if (!list.profile.empty()) command += " --profile " + shell_quoted(list.profile);
  for (const std::string& text : overrides_in(list.name)) {
    const bool is_repeats = text.starts_with("repeats=");
    command += is_repeats ? " --" + text : " --set " + shell_quoted(text);
  }
  return command;
}

// Adds the page's details for the first kMostDetailedRuns of `runs`.
void read_html_detail(HtmlDetail& html, Store& store, const std::filesystem::path& results,
                      std::span<const ComparisonRow* const> runs) {
  html.run_count = runs.size();
  std::map<int64_t, size_t> place;
  std::set<std::string> experiments;
  for (const ComparisonRow* run : runs.first(std::min(runs.size(), kMostDetailedRuns))) {
    place[run->run] = html.runs.size();
    experiments.insert(run->experiment);
    html.runs.push_back(read_run(store, results, *run));
    const std::string& digest = html.runs.back().provenance.experiment_text_digest;
    if (!digest.empty() && !html.experiment_texts.contains(digest)) {
      html.experiment_texts[digest] =
          store.experiment_text(run->run, static_cast<int>(*run->attempt));
    }
  }
  for (ExperimentRecord& experiment : store.experiments()) {
    if (!experiments.contains(experiment.name)) continue;
    html.commands.push_back(command_again(experiment));
    html.experiments.push_back(std::move(experiment));
  }
  for (const std::string& experiment : experiments) {
    for (RankRow& rank : store.comparison_per_rank(experiment, Listed::kEver)) {
      const auto found = place.find(rank.run);
      if (found != place.end() && rank.rank) {
        html.runs[found->second].ranks.push_back(std::move(rank));
      }
    }
  }
}

// --- the command ---

struct ReportArguments {
  std::vector<std::string> results{"results"};
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
  Report& report = arguments.report;
  read_html_detail(report.html, store, report.results, shown_runs(arguments.format, report));
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

// Takes a copy: if the index is found damaged, the command is carried out once more.
ExitCode report_command(ReportArguments arguments) {
  Report& report = arguments.report;
  if (report.view.columns == std::vector<std::string>{"help"}) {
    std::cout << columns_reference();
    return ExitCode::kOk;
  }
  arguments.format = arguments.output.format();
  const bool prints_bytes = arguments.format == Format::kParquet && arguments.output.file.empty();
  if (prints_bytes && isatty(STDOUT_FILENO) == 1) {
    throw ConfigError("--format", "",
                      "parquet is not text for a terminal; write a file: --output FILE.parquet");
  }
  read_head(arguments);
  if (arguments.output.file.empty()) {
    report.colour = stdout_has_colour();
    report.width = stdout_columns();
  }
  if (!arguments.since.empty()) {
    arguments.since_unix_ms = moment_unix_ms(arguments.since, now_unix_ms(), "--since");
  }
  Store store = existing_results(arguments.results);
  report.results = place_of_results(arguments.results);
  refresh_open_jobs(store, report.results);
  const auto [text, code] = !arguments.reference.empty()       ? beside_reference(arguments, store)
                            : !arguments.class_figures.empty() ? of_class(arguments, store)
                                                               : comparison(arguments, store);
  prints_bytes ? SafeStreams::write_program_output(text)
               : write_output(arguments.output.file, text);
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
      add("--per-run", RowKind::kRun,
          "A row per run, repeats too (default of csv, json, jsonl and parquet)");
  CLI::Option* per_series =
      add("--per-series", RowKind::kSeries, "A row for all repeats of a point (default of others)");
  add("--per-rank", RowKind::kRank, "Memory and time of each rank")
      ->excludes(per_run)
      ->excludes(per_series);
  per_run->excludes(per_series);
}

}  // namespace

void read_rows(Report& report, const Store& store, const std::vector<std::string>& experiments,
               std::optional<int64_t> since_unix_ms, Listed listed) {
  std::vector<std::string> names = experiments;
  std::vector<std::string> beside = lists_beside(store, experiments);
  if (listed == Listed::kEver)
    std::ranges::move(std::exchange(beside, {}), std::back_inserter(names));
  const std::vector<std::string> every{""};
  for (const std::string& experiment : names.empty() ? every : names) {
    std::ranges::move(store.comparison(experiment, Listed::kEver), std::back_inserter(report.rows));
    if (report.row_kind != RowKind::kRank) continue;
    std::ranges::move(store.comparison_per_rank(experiment, listed),
                      std::back_inserter(report.rank_rows));
  }
  if (since_unix_ms) {
    std::erase_if(report.rows, [&](const ComparisonRow& run) {
      return run.started_unix_ms.value_or(0) < *since_unix_ms;
    });
  }
  put_variants(report, listed);
  if (!beside.empty()) {
    report.notes.push_back(fmt::format(
        "Not shown: {}, made with --set. `fsdp-run report {}` shows {}.", joined_names(beside),
        shell_quoted(beside.front()), beside.size() == 1 ? "it" : "the first"));
  }
  read_losses(report.rows, store);
  read_memory_uses(report.rows, store);
}

CommandFunction add_report_command(CLI::App& command) {
  const auto arguments = std::make_shared<ReportArguments>();
  Report& report = arguments->report;
  command.footer(R"(Examples:
  fsdp-run report                               every experiment in results/
  fsdp-run report experiments/lab.yaml chess    by file, or by name
  fsdp-run report lab --columns point,ranks,tokens_per_second --sort -ranks
  fsdp-run report lab --columns +gpu_hours      beside the usual columns
  fsdp-run report lab --where "ranks = 4" --where "loss_last < 2"
  fsdp-run report lab --baseline 4xDDP --group batch_size_per_rank
  fsdp-run report lab --output lab.html         or .md, .tex, .csv, .json
  fsdp-run report lab --output lab.parquet      or .jsonl: for pandas, DuckDB
  fsdp-run report lab --output lab.html --author "Ada, CS 101" --notes notes.txt
  fsdp-run report lab --all                     with the lists of --set
  fsdp-run report "lab [train.steps=20]"        the runs made with this --set
  fsdp-run report lab --class tokens/s,memory   who measured what, after merge
  fsdp-run report lab --results alice=a --results bob=b    of several folders
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
             "After merge, or of several folders: a table for each of these columns (--wide: all "
             "usual ones), with a row per person and a column per point; who has no result, and "
             "what differs")
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
  add_results_option(command, arguments->results);
  return [arguments] { return report_command(*arguments); };
}

}  // namespace fsdp
