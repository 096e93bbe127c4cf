#include "runner/export/export.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "base/text/utf8.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"

namespace fsdp {
namespace {

struct ExportArguments {
  std::vector<std::string> words;  // none: every run
  std::filesystem::path to;
  ExportFormat format = ExportFormat::kCsv;
  bool force = false;
  std::filesystem::path results = "results";
};

void check_place(const ExportArguments& arguments) {
  const std::filesystem::path& to = arguments.to;
  if (!std::filesystem::exists(to)) return;
  const auto refuse = [&](const char* problem) {
    throw ConfigError("--to", "", to.string() + problem);
  };
  if (!std::filesystem::is_directory(to)) refuse(" is not a folder");
  if (std::filesystem::is_empty(to)) return;
  const auto has_runs = [&](const char* name) { return std::filesystem::exists(to / name); };
  const bool is_export = has_runs("runs.csv") || has_runs("runs.jsonl") || has_runs("runs.parquet");
  if (!is_export || has_results(to)) {
    refuse(" holds other things than an export; name an empty or a new folder");
  }
  if (!arguments.force) {
    refuse(" holds an export; --force replaces all of it, or name another folder");
  }
}

std::vector<ComparisonRow> chosen_runs(Store& store, const std::vector<std::string>& words) {
  std::vector<ComparisonRow> rows = store.comparison("");
  const std::set<int64_t> chosen = find_runs(store, words, Purpose::kRead);
  std::erase_if(rows, [&](const ComparisonRow& row) { return !chosen.contains(row.run); });
  return rows;
}

std::optional<std::string> variable_if_set(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

ExitCode export_command(const ExportArguments& arguments) {
  check_place(arguments);
  Store store = existing_results(arguments.results);
  const std::vector<ComparisonRow> rows = chosen_runs(store, arguments.words);
  PublishedFolder place(arguments.to);
  export_runs(store, rows, place.folder(),
              {.format = arguments.format,
               .results = arguments.results,
               .wandb = WandbSpec{.entity = variable_if_set("WANDB_ENTITY"),
                                  .project = variable_if_set("WANDB_PROJECT"),
                                  .name = {}}});
  place.publish();
  const auto without_attempt = std::ranges::count_if(
      rows, [](const ComparisonRow& row) { return !row.attempt.has_value(); });
  std::cout << counted(std::ssize(rows), "run") << " written to "
            << visible_line(arguments.to.string());
  if (without_attempt > 0) std::cout << ", " << without_attempt << " of them not yet run";
  std::cout << '\n';
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_export_command(CLI::App& command) {
  const auto arguments = std::make_shared<ExportArguments>();
  command.footer(R"(Examples:
  fsdp-run export --to lab-csv lab
  fsdp-run export --to tables --format parquet lab     for pandas, DuckDB
  fsdp-run export --to curves --format tensorboard 4xDDP 4xFSDP
  fsdp-run export --to traces --format trace 4xFSDP    for Perfetto)");
  command.add_option("WHAT", arguments->words,
                     "Experiments (name or file) and runs (number, point, hash); default: all");
  add_option(command, "--to DIR", arguments->to, "Folder to write")->required();
  add_named_option(command, "--format FORMAT=csv", arguments->format,
                   "csv, jsonl, parquet, tensorboard, wandb, mlflow, trackio, trace or memory");
  command.add_flag("--force", arguments->force, "Replace an export that is there");
  add_results_option(command, arguments->results);
  return [arguments] { return export_command(*arguments); };
}

}  // namespace fsdp
