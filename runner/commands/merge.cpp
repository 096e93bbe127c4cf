#include "runner/store/merge.h"

#include <iostream>
#include <memory>

#include "base/text/utf8.h"
#include "runner/commands/options.h"

namespace fsdp {
namespace {

struct MergeArguments {
  std::vector<std::string> folders;  // DIR or NAME=DIR
  std::filesystem::path results = "results";
};

ExitCode merge(const MergeArguments& arguments) {
  const std::vector<MergeSource> sources = named_results(arguments.folders);
  const auto warn = [](const std::string& line) { std::cerr << visible_line(line) << '\n'; };
  const std::vector<MergedSource> merged = merge_results(arguments.results, sources, warn);
  std::vector<std::string> skipped;
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string name = visible_line(sources[i].name);
    if (!merged[i].skipped.empty()) {
      skipped.push_back(fmt::format("  {}: {}\n", name, visible_line(merged[i].skipped)));
      continue;
    }
    std::cout << fmt::format("{}: {}, {}, {} of them new\n", name,
                             counted(merged[i].experiments, "experiment"),
                             counted(merged[i].runs, "run"), merged[i].new_runs);
  }
  if (skipped.empty()) return ExitCode::kOk;
  std::cout << std::flush;
  std::cerr << fmt::format("Skipped {} of {}:\n{}", skipped.size(),
                           counted(std::ssize(sources), "folder"), fmt::join(skipped, ""));
  if (skipped.size() < sources.size()) return ExitCode::kRunFailed;
  throw ConfigError("", "", "nothing was merged into " + arguments.results.string());
}

}  // namespace

CommandFunction add_merge_command(CLI::App& command) {
  command.footer(R"(Examples:
  fsdp-run merge class/* --results all     each experiment as NAME/EXPERIMENT
  fsdp-run merge alice=/home/a/results bob=/home/b/results --results all
  fsdp-run report lab --results all        everybody's runs

The files of runs are copied to all/merged, except checkpoints and logs of more
than 1 MiB. The folders are only read. Those that cannot be merged are skipped
and listed. The exit status is then 1, or 2 if all are.)");
  const auto arguments = std::make_shared<MergeArguments>();
  command
      .add_option("DIR", arguments->folders,
                  "Results folders, or folders with one called results;\nNAME=DIR names the owner")
      ->required();
  add_results_option(command, arguments->results);
  return [arguments] { return merge(*arguments); };
}

}  // namespace fsdp
