#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/system/unix_time.h"
#include "base/text/config_error.h"
#include "base/text/utf8.h"
#include "contract/record/run_paths.h"
#include "contract/spec/yaml_value.h"
#include "runner/cluster/answers.h"
#include "runner/cluster/open_jobs.h"
#include "runner/cluster/slurm.h"
#include "runner/commands/commands.h"
#include "runner/commands/console.h"
#include "runner/commands/find_run.h"
#include "runner/commands/options.h"
#include "runner/export/export.h"
#include "runner/run/earlier_attempts.h"
#include "runner/run/locks.h"
#include "runner/store/merge.h"
#include "runner/store/prune.h"
#include "runner/store/results_unavailable.h"

// The commands that change or copy what earlier runs have left: cancel, export, merge and prune.
namespace fsdp {
namespace {

// --- cancel ---

// The time to wait for a cancelled job; `status` tells of jobs that take longer.
constexpr std::chrono::seconds kPatience{10};

struct CancelArguments {
  std::vector<std::string> words;  // none: every run
  std::filesystem::path results = "results";
};

// Names the runners that may still start or submit runs that are in no job. Only a runner's user
// can stop it.
void name_runners(const Store& store, const CancelArguments& arguments,
                  const std::set<int64_t>& runs) {
  const std::set<int64_t> in_jobs = runs_in_jobs(store);
  std::set<std::string> experiments;
  for (const RunRecord& run : store.runs()) {
    const bool is_to_end = run.status == RunStatus::kPlanned || run.status == RunStatus::kRunning;
    if (!runs.contains(run.id) || in_jobs.contains(run.id) || !run.current) continue;
    if (is_to_end) experiments.insert(run.experiment);
  }
  for (const std::string& experiment : experiments) {
    std::string owner;
    if (ExperimentLock::if_free(arguments.results, experiment, owner)) continue;
    std::cout << visible_line("another fsdp-run (" + owner + ") is at work on '" + experiment)
              << "': interrupt that one (Ctrl-C, or kill)\n";
  }
}

// Waits until the results tell that the jobs ended. A runner that follows the jobs records their
// ends itself.
void wait_for_end(Store& store, const CancelArguments& arguments, const JobsToCancel& chosen,
                  Queue& queue) {
  const Pauses pauses = real_pauses();
  const auto end = pauses.now() + kPatience;
  do {
    refresh_free_jobs(store, arguments.results, experiments_in_jobs(store), &queue, pauses);
    const std::set<int64_t> open = runs_in_jobs(store);
    const auto is_open = [&](const auto& task) { return open.contains(task.run.id); };
    if (std::ranges::none_of(chosen.tasks, is_open)) return;
    pauses.wait(std::chrono::seconds(1));
  } while (pauses.now() < end);
  std::cout << "the jobs take a while to end; fsdp-run status shows when they have ended\n";
}

// Names the tasks that Slurm refuses to end, and drops them from `tasks`. True if there are any.
bool tell_refused(const std::map<std::string, std::string>& refused,
                  std::vector<JobsToCancel::Task>& tasks) {
  const auto is_refused = [&](const JobsToCancel::Task& task) {
    const auto whole = refused.find(job_of(task.name));
    const auto found = whole == refused.end() ? refused.find(task.name) : whole;
    if (found == refused.end()) return false;
    std::cerr << visible_line(fmt::format("not cancelled: job {}: {}: {}", task.name,
                                          run_label(task.run), found->second))
              << '\n';
    return true;
  };
  return std::erase_if(tasks, is_refused) > 0;
}

ExitCode cancel_command(const CancelArguments& arguments) {
  Store store = existing_results(arguments.results);
  SlurmQueue queue;
  std::string here;
  JobsToCancel chosen;
  std::map<std::string, std::string> refused;
  const std::set<int64_t> runs = find_runs(store, arguments.words);
  try {
    if (!store.open_jobs("").empty()) {
      here = queue.limits().cluster;
      refresh_free_jobs(store, arguments.results, experiments_in_jobs(store), &queue,
                        real_pauses());
    }
    chosen = jobs_to_cancel(store, runs, here);
    if (!chosen.other_clusters.empty()) {
      std::cout << visible_line(left_alone(chosen.other_clusters)) << '\n';
    }
    if (!chosen.names.empty()) refused = queue.cancel(chosen.names);
  } catch (const QueueUnavailable& error) {
    throw std::runtime_error(
        "Slurm does not answer, so it is not known if jobs were cancelled; call again when it "
        "answers: " +
        std::string(error.what()));
  }
  const bool some_refused = tell_refused(refused, chosen.tasks);
  for (const JobsToCancel::Task& task : chosen.tasks) {
    // Slurm may keep no record of a task that never ran.
    store.record_status(task.run.id, RunStatus::kCancelled, "cancelled by fsdp-run cancel");
    std::cout << "cancelled job " << visible_line(task.name) << ": " << run_label(task.run) << '\n';
  }
  if (chosen.names.empty()) {
    std::cout << "no job to cancel\n";
  } else {
    std::cout << std::flush;
    wait_for_end(store, arguments, chosen, queue);
  }
  name_runners(store, arguments, runs);
  return some_refused ? ExitCode::kRunFailed : ExitCode::kOk;
}

// --- export ---

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
  const bool is_export =
      std::filesystem::exists(to / "runs.csv") || std::filesystem::exists(to / "runs.jsonl");
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

// --- merge ---

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

// --- prune ---

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

// Records attempts that exist only in files, so prune removes nothing that the database does not
// list. Drops from `wish` the runs that are under way, and those whose attempts cannot be recorded
// now.
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

CommandFunction add_cancel_command(CLI::App& command) {
  const auto arguments = std::make_shared<CancelArguments>();
  command.footer(R"(Examples:
  fsdp-run cancel lab                      all jobs of an experiment
  fsdp-run cancel lab/4xFSDP lab/8xFSDP    those of two runs
  fsdp-run cancel                          all of the results folder)");
  command.add_option("WHAT", arguments->words, "Experiments, their files, or runs (default: all)");
  add_results_option(command, arguments->results);
  return [arguments] { return cancel_command(*arguments); };
}

CommandFunction add_export_command(CLI::App& command) {
  const auto arguments = std::make_shared<ExportArguments>();
  command.footer(R"(Examples:
  fsdp-run export --to lab-csv lab
  fsdp-run export --to curves --format tensorboard 4xDDP 4xFSDP)");
  command.add_option("WHAT", arguments->words,
                     "Experiments (name or file) and runs (number, point, hash); default: all");
  add_option(command, "--to DIR", arguments->to, "Folder to write")->required();
  add_named_option(command, "--format FORMAT=csv", arguments->format,
                   "csv, jsonl, tensorboard or wandb");
  command.add_flag("--force", arguments->force, "Replace an export that is there");
  add_results_option(command, arguments->results);
  return [arguments] { return export_command(*arguments); };
}

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
