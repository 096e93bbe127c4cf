#include "runner/store/merge.h"

#include <iostream>
#include <map>
#include <memory>

#include "base/text/utf8.h"
#include "runner/commands/options.h"

namespace fsdp {
namespace {

struct MergeArguments {
  std::vector<std::string> folders;  // DIR or NAME=DIR
  std::filesystem::path results = "results";
};

MergeSource source_of(const std::string& word) {
  const size_t equals = word.find('=');
  std::error_code not_there;  // also of a word that is too long for a file's name
  const bool is_named = equals != std::string::npos && !std::filesystem::exists(word, not_there);
  std::filesystem::path folder = is_named ? word.substr(equals + 1) : word;
  if (!has_results(folder) && has_results(folder / "results")) folder /= "results";
  std::filesystem::path whose = std::filesystem::weakly_canonical(folder, not_there);
  if (whose.filename() == "results") whose = whose.parent_path();  // alice/results are alice's
  std::string name = is_named ? word.substr(0, equals) : whose.filename().string();
  if (name.empty() || name.find('/') != std::string::npos) {
    throw ConfigError("", word, "needs a name; write NAME=DIR, with a NAME without '/'");
  }
  return {.name = std::move(name), .results = std::move(folder)};
}

std::vector<MergeSource> sources_of(const MergeArguments& arguments) {
  std::vector<MergeSource> sources;
  std::map<std::string, std::string> word_of_name;
  for (const std::string& word : arguments.folders) {
    MergeSource source = source_of(word);
    const auto [other, is_new] = word_of_name.emplace(source.name, word);
    if (!is_new) {
      throw ConfigError("", word,
                        "would be named '" + source.name + "', like " + other->second +
                            "; give it another name: NAME=" + word);
    }
    sources.push_back(std::move(source));
  }
  return sources;
}

ExitCode merge(const MergeArguments& arguments) {
  const std::vector<MergeSource> sources = sources_of(arguments);
  const std::vector<MergedSource> merged = merge_results(arguments.results, sources);
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

The folders are only read; logs and checkpoints stay in them. Those that cannot
be merged are skipped and listed. The exit status is then 1, or 2 if all are.)");
  const auto arguments = std::make_shared<MergeArguments>();
  command
      .add_option("DIR", arguments->folders,
                  "Results folders, or folders with one called results;\nNAME=DIR names the owner")
      ->required();
  add_results_option(command, arguments->results);
  return [arguments] { return merge(*arguments); };
}

}  // namespace fsdp
