#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "contract/record/unix_time.h"
#include "runner/commands/commands.h"
#include "runner/commands/options.h"
#include "runner/commands/refresh.h"
#include "runner/commands/report_answer.h"
#include "runner/commands/since.h"
#include "runner/host/whole_file.h"
#include "runner/report/columns.h"

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
  fsdp-run report --compare 4xDDP 4xFSDP
  fsdp-run report --reference results/reference/lab_a100x4.yaml
)";

struct ReportArguments {
  std::string format = "table";
  std::string since;
  std::filesystem::path output;
  bool per_run = false;
  bool per_series = false;
  bool per_rank = false;
  Question question;
};

std::optional<RowKind> row_kind(const ReportArguments& arguments) {
  if (arguments.per_rank) return RowKind::kRank;
  if (arguments.per_run) return RowKind::kRun;
  if (arguments.per_series) return RowKind::kSeries;
  return std::nullopt;
}

ExitCode report(ReportArguments arguments) {
  ReportOptions& options = arguments.question.options;
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
  Store store(options.results, StoreUse::kExisting);
  refresh_open_jobs(store, options.results);
  const auto [text, code] = answer(arguments.question, store);
  if (arguments.output.empty()) {
    std::cout << text << std::flush;
  } else {
    write_whole_file(arguments.output, text);
  }
  return code;
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
      .add_option("EXPERIMENT", arguments->question.experiments,
                  "Names or files (default: every one there)")
      ->option_text("...");
  command.add_option("--format", arguments->format, "table, markdown, csv, json, latex or html")
      ->check(CLI::IsMember(std::vector<std::string>(kFormats.begin(), kFormats.end())))
      ->option_text("FORMAT=table");
  command.add_option("--output", arguments->output, "Write it there")->option_text("FILE");
  add_view_options(command, arguments->question.options.view);
  command
      .add_option("--reference", arguments->question.reference,
                  "Published figures beside the measured ones; exit status 1 when one is outside "
                  "its tolerance, or none could be judged")
      ->option_text("FILE");
  command
      .add_option("--compare", arguments->question.compare,
                  "Two runs side by side, by number, point or hash: what differs, and the ratio")
      ->expected(2)
      ->option_text("RUN RUN");
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
  add_results_option(command, arguments->question.options.results);
  command.footer(kExamples);
  return [arguments] { return report(*arguments); };
}

}  // namespace fsdp
