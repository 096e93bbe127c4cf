#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/commands/print_report.h"
#include "runner/commands/since.h"
#include "runner/experiment/experiment.h"
#include "runner/report/columns.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/yaml_value.h"

namespace fsdp {
namespace {

constexpr const char* kExamples = R"(Examples:
  fsdp-run report                               every experiment in results/
  fsdp-run report experiments/lab.yaml chess    by file, or by name
  fsdp-run report lab --columns point,ranks,tokens_per_second --sort -ranks
  fsdp-run report lab --columns +gpu_hours      beside the usual columns
  fsdp-run report lab --where "ranks = 4" --where "loss_last < 2"
  fsdp-run report lab --baseline 4xDDP --group batch_size_per_rank
  fsdp-run report lab --format latex --output table.tex
)";

struct ReportArguments {
  std::vector<std::string> experiments;  // none: every one in the results
  std::string format = "table";
  std::string since;
  std::filesystem::path output;
  bool per_run = false;
  bool per_series = false;
  bool per_rank = false;
  ReportOptions options;
};

struct ChosenExperiments {
  std::vector<std::string> names;
  std::string title;  // where it is one
};

// A word is the name of an experiment in the results, there also as merged from another folder
// ("alice/lab"), or an experiment's file.
ChosenExperiments choose(const std::vector<std::string>& words, const Store& store,
                         const std::filesystem::path& results) {
  const std::vector<ExperimentRecord> known = store.experiments();
  ChosenExperiments chosen;
  const auto add = [&](const std::string& name) {
    bool found = false;
    for (const ExperimentRecord& record : known) {
      if (record.name != name && !record.name.ends_with('/' + name)) continue;
      found = true;
      if (std::ranges::find(chosen.names, record.name) != chosen.names.end()) continue;
      chosen.names.push_back(record.name);
      chosen.title = record.title;
    }
    return found;
  };
  for (const std::string& word : words) {
    if (add(word)) continue;
    if (std::filesystem::exists(word)) {
      const std::string name = Experiment::load(word).name();
      if (add(name)) continue;
      throw ConfigError(
          results.string(), "",
          "holds no run of '" + name + "'; run it first, or name another folder with --results");
    }
    std::vector<std::string> names;
    for (const ExperimentRecord& record : known) names.push_back(record.name);
    throw ConfigError("", "",
                      "'" + word + "' is neither a file nor an experiment in " + results.string() +
                          (names.empty() ? "" : ", which holds: " + joined(names)) +
                          suggestion(word, names));
  }
  if (chosen.names.size() != 1) chosen.title.clear();
  return chosen;
}

// The whole text or, when it cannot be written, nothing: an earlier file stays as it was.
void write_file(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path temporary = path.string() + ".incomplete";
  std::ofstream file(temporary, std::ios::binary);
  file << text << std::flush;
  std::error_code error;
  if (file) {
    file.close();
    std::filesystem::rename(temporary, path, error);
  }
  if (!file || error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw std::runtime_error(path.string() + " cannot be written" +
                             (error ? ": " + error.message() : "") +
                             "; is the folder there, and is there space?");
  }
}

int64_t now_unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::optional<RowKind> row_kind(const ReportArguments& arguments) {
  if (arguments.per_rank) return RowKind::kRank;
  if (arguments.per_run) return RowKind::kRun;
  if (arguments.per_series) return RowKind::kSeries;
  return std::nullopt;
}

ExitCode report(ReportArguments arguments) {
  ReportOptions& options = arguments.options;
  if (options.view.columns == std::vector<std::string>{"help"}) {
    std::cout << columns_reference();
    return ExitCode::kOk;
  }
  options.format = *enum_from_name<Format>(arguments.format);
  options.row_kind = row_kind(arguments);
  options.colour = arguments.output.empty() && stdout_has_colour();
  if (!arguments.since.empty()) {
    options.since_unix_ms = moment_unix_ms(arguments.since, now_unix_ms(), "--since");
  }
  require_results(options.results);
  Store store(options.results);
  const auto [names, title] = choose(arguments.experiments, store, options.results);
  const std::string text = render(options.format, read_report(store, names, title, options));
  if (arguments.output.empty()) {
    std::cout << text << std::flush;
  } else {
    write_file(arguments.output, text);
  }
  return ExitCode::kOk;
}

void add_view_options(CLI::App& command, View& view) {
  command
      .add_option("--columns", view.columns,
                  "These, in this order; +NAME: beside the usual ones; help lists all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("A,B,...");
  command.add_option("--sort", view.sort, "By this column; -COLUMN: the largest first")
      ->option_text("COLUMN");
  command
      .add_option("--where", view.where,
                  "\"COLUMN OP VALUE\", OP one of = != < <= > >= ~ (holds); may be repeated")
      ->allow_extra_args(false)
      ->option_text("CONDITION");
  command.add_option("--baseline", view.baseline, "What ratios are to (default: the first row)")
      ->option_text("POINT");
  command.add_option("--group", view.group, "A block of rows, with its own baseline, per value")
      ->option_text("COLUMN");
}

}  // namespace

CommandFunction add_report_command(CLI::App& app) {
  constexpr auto kFormats = enum_names(Format{});
  CLI::App& command = *app.add_subcommand("report", "Print the table of earlier runs");
  const auto arguments = std::make_shared<ReportArguments>();
  command
      .add_option("EXPERIMENT", arguments->experiments, "Names or files (default: every one there)")
      ->option_text("...");
  command.add_option("--format", arguments->format, "table, markdown, csv, json, latex or html")
      ->check(CLI::IsMember(std::vector<std::string>(kFormats.begin(), kFormats.end())))
      ->option_text("FORMAT=table");
  command.add_option("--output", arguments->output, "Write it there")->option_text("FILE");
  add_view_options(command, arguments->options.view);
  command
      .add_option("--since", arguments->since,
                  "Only runs started since: 2026-11-21, 2026-11-21T14:30, 2h, 3d")
      ->option_text("TIME");
  CLI::Option* per_run = command.add_flag("--per-run", arguments->per_run,
                                          "A row per run, repeats too (default of csv and json)");
  CLI::Option* per_series =
      command.add_flag("--per-series", arguments->per_series,
                       "A row for all repeats of a point (default of others)");
  command.add_flag("--per-rank", arguments->per_rank, "Memory and time of each rank")
      ->excludes(per_run)
      ->excludes(per_series)
      ->option_text(" ");
  per_run->excludes(per_series)->option_text(" ");
  per_series->option_text(" ");
  add_results_option(command, arguments->options.results);
  command.footer(kExamples);
  return [arguments] { return report(*arguments); };
}

}  // namespace fsdp
