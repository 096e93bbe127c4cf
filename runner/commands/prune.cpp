#include "runner/store/prune.h"

#include <unistd.h>

#include <iostream>
#include <map>
#include <memory>

#include "base/system/unix_time.h"
#include "base/text/bytes_text.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/run/earlier_attempts.h"
#include "runner/run/locks.h"
#include "runner/store/results_unavailable.h"

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

std::string item_name(const PruneItem& item) {
  if (!item.run) return item.folder.string() + ", left by a prune that was stopped";
  const std::string label = run_label(*item.run);
  if (!item.checkpoint_step) return label;
  return fmt::format("{}, checkpoint of step {}", label, *item.checkpoint_step);
}

std::string line_of(const PruneItem& item) {
  std::string line = fmt::format("{:>10}  {}", bytes_text(item.size_bytes), item_name(item));
  if (!item.run || item.checkpoint_step) return line;
  return line + fmt::format(", {}", name_of(item.run->status));
}

using Locks = std::map<std::string, std::unique_ptr<ExperimentLock>>;

// Locks the experiments that nobody works on. Drops the runs of other experiments from `wish`.
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

// Records attempts that people started by hand. Drops from `wish` the runs that are under way, and
// those whose attempts cannot be recorded now.
void recover_before_prune(Store& store, const std::filesystem::path& results, const Locks& held,
                          PruneWish& wish) {
  const auto say = [](const std::string& line) { std::cerr << visible_line(line) << '\n'; };
  std::erase_if(wish.runs, [&](int64_t run) { return store.is_under_way(run); });
  for (const auto& [experiment, lock] : held) {
    if (!lock) continue;
    try {
      recover_attempts(store, results, experiment, say);
      continue;
    } catch (const std::exception& error) {
      if (!may_pass(error)) throw;
    }
    for (const RunRecord& run : store.runs()) {
      const std::vector<int> attempts = attempts_with_folder(RunPaths(results / run.folder));
      const bool is_recorded = attempts.empty() || attempts.back() <= run.attempt;
      if (run.experiment != experiment || is_recorded || wish.runs.erase(run.id) == 0) continue;
      say("left alone: " + run_label(run) + ", which has an attempt that cannot be recorded now");
    }
  }
}

bool is_confirmed(const PruneArguments& arguments) {
  if (arguments.yes) return true;
  if (isatty(STDIN_FILENO) == 0) {
    throw ConfigError("prune", "",
                      "asks before it removes anything, but standard input is not a terminal; call "
                      "it with --yes");
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
  recover_before_prune(store, arguments.results, held, wish);
  std::vector<PruneItem> items = find_prunable(store, arguments.results, wish);
  std::erase_if(items, [](const PruneItem& item) {
    if (item.folder.empty()) {
      std::cerr << visible_line("left alone: " + item_name(item) +
                                ", whose folder is behind a link: " + item.run->folder.string())
                << '\n';
      return true;
    }
    if (!item.kept_for) return false;
    const auto& [run, key, place] = *item.kept_for;
    std::cerr << visible_line(fmt::format("left alone: {}, which {} reads ({})", place.string(),
                                          run_label(run), key))
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
            << bytes_text(size_bytes) << std::endl;
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
                   "Only runs that are no longer in their experiment's list");
  command.add_flag("--checkpoints", wish.checkpoints, "Only the checkpoints; figures stay");
  add_option(command, "--keep-last N", wish.keep_last, "Keep the N newest checkpoints of a run")
      ->check(CLI::Range(1, 1'000'000, "at least 1"));
  command.add_flag("--dry-run", arguments->dry_run, "Show what would be removed");
  command.add_flag("--yes", arguments->yes, "Do not ask");
  add_results_option(command, arguments->results);
  return [arguments] { return prune_command(*arguments); };
}

}  // namespace fsdp
