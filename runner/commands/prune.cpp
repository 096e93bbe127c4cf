#include "runner/store/prune.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/system/unix_time.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/spec/yaml_value.h"
#include "runner/commands/commands.h"
#include "runner/commands/find_run.h"
#include "runner/commands/local_time.h"
#include "runner/commands/options.h"
#include "runner/run/locks.h"

namespace fsdp {
namespace {

struct PruneArguments {
  std::vector<std::string> words;  // none: every run
  std::string older_than;
  PruneWish wish;
  bool dry_run = false;
  bool yes = false;
  std::filesystem::path results = "results";
};

void check(const PruneArguments& arguments) {
  const PruneWish& wish = arguments.wish;
  if (!wish.checkpoints && wish.keep_last > 0) {
    throw ConfigError("--keep-last", "", "is about checkpoints; give --checkpoints too");
  }
  if (arguments.words.empty() && arguments.older_than.empty() && !wish.not_current &&
      !wish.checkpoints) {
    throw ConfigError("prune", "",
                      "which runs? Name experiments or runs, or give --older-than, --not-current "
                      "or --checkpoints");
  }
}

// "12.5 MiB"
std::string size_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string item_name(const PruneItem& item) {
  if (!item.run) return item.folder.string() + ", left by a prune that was stopped";
  const std::string label = run_label(*item.run);
  if (!item.checkpoint_step) return label;
  return fmt::format("{}, checkpoint of step {}", label, *item.checkpoint_step);
}

std::string line_of(const PruneItem& item) {
  std::string line = fmt::format("{:>10}  {}", size_text(item.size_bytes), item_name(item));
  if (!item.run || item.checkpoint_step) return line;
  line += fmt::format(", {}", name_of(item.run->status));
  if (item.folder.empty()) line += "; its files, if any, stay in " + item.run->folder.string();
  return line;
}

using Locks = std::map<std::string, std::unique_ptr<ExperimentLock>>;

// Locks the experiments that nobody works on. Drops the runs of the others from `wish`.
Locks lock_free_experiments(const Store& store, const std::filesystem::path& results,
                            PruneWish& wish) {
  Locks locks;
  for (const RunRecord& run : store.runs()) {
    if (!wish.runs.contains(run.id)) continue;
    const auto [lock, is_new] = locks.try_emplace(run.experiment);
    std::string owner;
    if (is_new) lock->second = ExperimentLock::if_free(results, run.experiment, owner);
    if (lock->second) continue;
    wish.runs.erase(run.id);
    if (!is_new) continue;
    std::cerr << visible_line("left alone: '" + run.experiment + "', another fsdp-run (" + owner)
              << ") is at work on it\n";
  }
  return locks;
}

bool is_confirmed(const PruneArguments& arguments) {
  if (arguments.yes) return true;
  if (isatty(STDIN_FILENO) == 0) {
    throw ConfigError("prune", "",
                      "asks before it removes anything, and nobody is there to answer; "
                      "call it with --yes");
  }
  std::cerr << "Remove them? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

ExitCode prune_command(PruneArguments arguments) {
  check(arguments);
  Store store = existing_results(arguments.results);
  PruneWish& wish = arguments.wish;
  if (!arguments.older_than.empty()) {
    wish.older_than_unix_ms = moment_unix_ms(arguments.older_than, now_unix_ms(), "--older-than");
  }
  wish.runs = find_runs(store, arguments.words);
  Locks held;
  if (!arguments.dry_run) held = lock_free_experiments(store, arguments.results, wish);
  std::vector<PruneItem> items = find_prunable(store, arguments.results, wish);
  std::erase_if(items, [](const PruneItem& item) {
    if (!item.kept_for) return false;
    std::cerr << visible_line(fmt::format("left alone: {}, from which {} resumes",
                                          item.kept_for->checkpoint.string(),
                                          run_label(item.kept_for->by)))
              << '\n';
    return true;
  });
  if (items.empty()) {
    std::cout << "nothing to remove\n";
    return ExitCode::kOk;
  }
  int64_t size_bytes = 0;
  for (const PruneItem& item : items) {
    std::cout << visible_line(line_of(item)) << '\n';
    size_bytes += item.size_bytes;
  }
  std::cout << counted(std::ssize(items), wish.checkpoints ? "checkpoint" : "run") << ", "
            << size_text(size_bytes) << std::endl;
  if (arguments.dry_run) return ExitCode::kOk;
  if (!is_confirmed(arguments)) {
    std::cout << "nothing was removed\n";
    return ExitCode::kOk;
  }
  for (const PruneItem& item : prune(store, arguments.results, wish, std::move(items))) {
    std::cerr << visible_line("left alone: " + item_name(item)) << ", which is in use now\n";
  }
  std::cout << "removed\n";
  return ExitCode::kOk;
}

}  // namespace

CommandFunction add_prune_command(CLI::App& command) {
  command.footer(R"(Examples:
  fsdp-run prune --older-than 30d          runs, with their files and figures
  fsdp-run prune lab --not-current         what is no longer in lab's list
  fsdp-run prune --checkpoints --keep-last 1
  fsdp-run prune 12 4xFSDP --dry-run       what would go)");
  const auto arguments = std::make_shared<PruneArguments>();
  PruneWish& wish = arguments->wish;
  command.add_option("WHAT", arguments->words,
                     "Experiments (name or file) and runs (number,\npoint, hash); default: all");
  add_option(command, "--older-than TIME", arguments->older_than,
             "Only runs started before: 30d, 12h, 2026-01-31");
  command.add_flag("--not-current", wish.not_current,
                   "Only runs that left their experiment's list");
  command.add_flag("--checkpoints", wish.checkpoints, "Only the checkpoints; figures stay");
  add_option(command, "--keep-last N", wish.keep_last, "Keep the N newest checkpoints of a run")
      ->check(CLI::Range(1, 1'000'000, "at least 1"));
  command.add_flag("--dry-run", arguments->dry_run, "Show what would be removed");
  command.add_flag("--yes", arguments->yes, "Do not ask");
  add_results_option(command, arguments->results);
  return [arguments] { return prune_command(*arguments); };
}

}  // namespace fsdp
