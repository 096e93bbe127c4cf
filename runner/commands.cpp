#include "runner/commands.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>

#include "runner/experiment/reference.h"
#include "runner/experiment_lock.h"
#include "runner/host.h"
#include "runner/launch/local_launcher.h"
#include "runner/planned_runs.h"
#include "runner/recovery.h"
#include "runner/run_experiment.h"
#include "trainer/contract/config_error.h"
#include "trainer/contract/json.h"
#include "trainer/contract/run_spec_yaml.h"

namespace fsdp {
namespace {

std::filesystem::path find_trainer(const std::filesystem::path& option) {
  const std::filesystem::path trainer =
      option.empty() ? std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fsdp-train"
                     : std::filesystem::absolute(option);
  if (access(trainer.c_str(), X_OK) != 0) {
    throw std::runtime_error("the trainer " + trainer.string() +
                             " is not there or cannot be executed; build it (target fsdp-train)");
  }
  return trainer;
}

std::filesystem::path absolute_file(const Experiment& experiment) {
  return std::filesystem::absolute(experiment.file()).lexically_normal();
}

std::string count_text(size_t count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

bool has_results(const std::filesystem::path& results) {
  return std::filesystem::exists(results / "results.sqlite");
}

using Digests = std::map<std::filesystem::path, std::string>;

// Those that `store`, if there is one yet, does not remember are computed, and noted in `computed`.
FileDigest digest_of(const std::optional<Store>& store, Digests& computed) {
  return remembered([&](const std::filesystem::path& file) {
    if (const auto known = store ? store->digest(file) : std::nullopt) return *known;
    return computed[file] = file_digest(file);
  });
}

void warn_of_another_file(const Store& store, const Experiment& experiment,
                          const std::filesystem::path& results, Progress& progress) {
  const auto earlier = store.experiment_file(experiment.name());
  if (!earlier || *earlier == absolute_file(experiment)) return;
  progress.say("warning: " + results.string() + " holds runs of '" + experiment.name() + "' from " +
               earlier->string() +
               "; this file's take their place in its table; to keep both, rename `experiment:` "
               "in one, or choose another folder with --results");
}

std::vector<RunToLaunch> without_result(const std::vector<RunRecord>& records,
                                        const std::vector<Store::PlannedRun>& planned, bool rerun) {
  std::vector<RunToLaunch> runs;
  for (size_t i = 0; i < records.size(); ++i) {
    const RunStatus status = records[i].status;
    const bool has_result = status == RunStatus::kFinished || status == RunStatus::kOutOfMemory;
    if (rerun || !has_result) runs.push_back({records[i], planned[i].spec});
  }
  return runs;
}

// Those of the host that nobody holds, enough for each of the runs.
std::vector<Gpu> gpus_for(const std::vector<RunToLaunch>& runs, const Host& host) {
  int64_t needed = 0;
  for (const RunToLaunch& run : runs) {
    if (run.spec.device == DeviceKind::kCuda) needed = std::max(needed, run.spec.strategy.ranks);
  }
  return needed == 0 ? host.gpus : unheld_gpus(host.gpus, static_cast<size_t>(needed));
}

// `experiment` empty: every one in the results.
void print_report(Store& store, std::string_view experiment, std::string title,
                  const ReportOptions& options) {
  Report report{.title = std::move(title),
                .rows = store.comparison(experiment),
                .per_rank = options.per_rank,
                .rank_rows = {},
                .results = options.results,
                .notes = {},
                .colour = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr};
  if (options.per_rank) report.rank_rows = store.comparison_per_rank(experiment);
  std::cout << render(options.format, report) << std::flush;
}

}  // namespace

ExitCode run_command(const RunOptions& options) {
  const Host host = find_host(options.gpus);
  const Experiment experiment = Experiment::load(options.file);
  Expansion expansion = experiment.expand(options.expand, host.resources);
  check_inputs_of(expansion);
  const std::filesystem::path trainer = find_trainer(options.trainer);

  std::signal(SIGPIPE, SIG_IGN);  // the runs go on when nobody reads the output any more
  std::optional<Store> results;   // nothing is created before all is planned
  if (has_results(options.results)) results.emplace(options.results);
  Digests computed;
  const FileDigest digest = digest_of(results, computed);
  std::vector<Store::PlannedRun> planned =
      planned_runs(experiment, std::move(expansion.runs), digest);
  const size_t chosen = planned.size();
  std::ranges::move(left_out_runs(experiment, std::move(expansion.left_out), digest),
                    std::back_inserter(planned));

  const ExperimentLock lock(options.results, experiment.name());
  if (!results) results.emplace(options.results);
  Store& store = *results;
  for (const auto& [file, known] : computed) store.remember_digest(file, known);
  Progress progress;
  warn_of_another_file(store, experiment, options.results, progress);
  if (!expansion.profile_reason.empty()) progress.say("profile " + expansion.profile_reason);
  recover_attempts(store, options.results, experiment.name(),
                   [&](const std::string& line) { progress.say(line); });
  std::vector<RunRecord> records = store.plan({.name = experiment.name(),
                                               .title = experiment.title(),
                                               .file = absolute_file(experiment),
                                               .text = experiment.text(),
                                               .profile = expansion.profile},
                                              planned);
  records.resize(chosen);
  std::vector<RunToLaunch> runs = without_result(records, planned, options.rerun);
  const std::vector<Gpu> gpus = gpus_for(runs, host);
  if (const size_t skipped = records.size() - runs.size(); skipped > 0) {
    progress.say(count_text(skipped, "run") + " with a result already; --rerun runs them again");
  }
  LocalLauncher launcher({.gpus = gpus,
                          .cpu_ranks = static_cast<int>(host.resources.cpu_cores),
                          .max_parallel = options.max_parallel});
  Sweep sweep(store, launcher, progress,
              {.results = options.results,
               .trainer = trainer,
               .host = host.name,
               .time_limit = options.time_limit});
  const ExitCode code = sweep.run(std::move(runs));
  print_report(store, experiment.name(), experiment.title(),
               {.results = options.results, .per_rank = options.per_rank});
  return code;
}

ExitCode dry_run_command(const RunOptions& options) {
  const Experiment experiment = Experiment::load(options.file);
  ExpandOptions choice = options.expand;
  choice.check_gpus = false;
  Expansion expansion = experiment.expand(choice, find_host(options.gpus).resources);
  check_inputs_of(expansion);
  const std::vector<Store::PlannedRun> planned =
      planned_runs(experiment, std::move(expansion.runs), remembered(file_digest));
  std::string text = "# " + count_text(planned.size(), "run") + '\n';
  if (!expansion.profile_reason.empty()) text += "# profile " + expansion.profile_reason + '\n';
  for (const Store::PlannedRun& run : planned) {
    text += "---\n# point: ";
    append_json_string(text, run.point);  // a name may hold line feeds
    text +=
        "\n# hash: " + run.hash + "\n# folder: " + (options.results / run.folder).string() + '\n';
    text += to_yaml(run.spec);
  }
  std::cout << text;
  return ExitCode::kOk;
}

ExitCode check_command(const RunOptions& options) {
  const Experiment experiment = Experiment::load(options.file);
  Expansion expansion = experiment.expand(options.expand, find_host(options.gpus).resources);
  check_inputs_of(expansion);
  const size_t count =
      planned_runs(experiment, std::move(expansion.runs), remembered(file_digest)).size();
  std::cout << options.file.string() << ": " << count_text(count, "run") << ", no mistake found\n";
  if (!expansion.profile_reason.empty())
    std::cout << "profile " << expansion.profile_reason << '\n';
  return ExitCode::kOk;
}

ExitCode schema_command() {
  std::cout << experiment_reference();
  return ExitCode::kOk;
}

ExitCode report_command(const ReportOptions& options) {
  if (!has_results(options.results)) {
    throw ConfigError("--results", "",
                      "there is no results.sqlite in " + options.results.string() +
                          "; run an experiment first, or name another folder");
  }
  Store store(options.results);
  if (options.file.empty()) {
    print_report(store, "", "", options);
  } else {
    const Experiment experiment = Experiment::load(options.file);
    if (store.comparison(experiment.name()).empty()) {
      throw ConfigError(options.results.string(), "",
                        "holds no run of '" + experiment.name() +
                            "'; run it first, or name another folder with --results");
    }
    print_report(store, experiment.name(), experiment.title(), options);
  }
  return ExitCode::kOk;
}

}  // namespace fsdp
