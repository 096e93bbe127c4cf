#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "base/files/digest.h"
#include "base/files/file_digest.h"
#include "base/system/log.h"
#include "base/text/config_error.h"
#include "contract/spec/yaml_value.h"
#include "runner/commands/commands.h"
#include "runner/commands/console.h"
#include "runner/commands/report.h"
#include "runner/commands/run_arguments.h"
#include "runner/commands/run_here.h"
#include "runner/commands/run_on_slurm.h"
#include "runner/host/host.h"
#include "runner/host/provenance.h"
#include "runner/plan/plan_report.h"
#include "runner/plan/planner.h"
#include "runner/run/attempt_files.h"
#include "runner/run/earlier_attempts.h"
#include "runner/run/locks.h"
#include "runner/run/planned_runs.h"
#include "runner/run/run_planner.h"
#include "runner/store/list_name.h"
#include "runner/store/results_database.h"
#include "runner/table/names.h"

namespace fsdp {
namespace {

constexpr double kLongestTimeLimitSeconds = 10'000.0 * 3600;

ProgressMode progress_mode(const RunArguments& options) {
  if (options.json) return ProgressMode::kJson;
  return options.quiet ? ProgressMode::kQuiet : ProgressMode::kAutomatic;
}

// Converts "45", "90s", "30m", "2h" to seconds.
CLI::Validator time_limit_units() {
  return CLI::AsNumberWithUnit(
      std::map<std::string, double>{{"s", 1.0}, {"m", 60.0}, {"h", 3600.0}},
      CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME");
}

std::filesystem::path absolute_file(const Experiment& experiment) {
  return std::filesystem::absolute(experiment.file()).lexically_normal();
}

// Takes digests from `store`, if there is one yet. Computes others, and adds them to `computed`.
FileDigest digest_of(const std::optional<Store>& store, std::vector<HashedFile>& computed) {
  return remembered([&](const std::filesystem::path& file) {
    if (const auto known = store ? store->digest(state_of(file)) : std::nullopt) return *known;
    return computed.emplace_back(hash_file(file)).digest;
  });
}

void warn_of_another_file(const Store& store, const ExperimentRecord& experiment,
                          const std::filesystem::path& results, Progress& progress) {
  const auto earlier = store.experiment_file(experiment.name);
  if (!earlier || *earlier == experiment.file) return;
  progress.warn("warning: " + results.string() + " holds runs of '" + experiment.name + "' from " +
                earlier->string() +
                "; the runs of this file replace them in the experiment's table; to keep both, "
                "rename `experiment:` in one, or choose another folder with --results");
}

std::optional<std::chrono::seconds> time_limit(const RunArguments& options) {
  if (options.time_limit_seconds == 0) return std::nullopt;
  return std::chrono::seconds(std::lround(options.time_limit_seconds));
}

void print_table(Store& store, const ExperimentRecord& experiment, const RunArguments& options,
                 ExitCode code) {
  Report report;
  report.title = experiment.title;
  report.results = options.results;
  report.colour = stdout_has_colour();
  report.width = stdout_columns();
  if (options.per_rank) report.row_kind = RowKind::kRank;
  read_rows(report, store, {experiment.name});
  std::string text = render(options.json ? Format::kJson : Format::kTable, report);
  if (!options.json) {
    std::cout << text << std::flush;
    return;
  }
  std::erase(text, '\n');
  std::cout << R"({"kind":"report","exit_status":)" << static_cast<int>(code) << R"(,"report":)"
            << text << "}\n";
}

JobSubmission::Settings submission_of(const RunArguments& options,
                                      const ExperimentRecord& experiment,
                                      const std::filesystem::path& runner,
                                      const std::filesystem::path& trainer, GitState git) {
  JobPlan plan;
  plan.file = experiment.file;
  plan.working_directory = std::filesystem::current_path();
  plan.profile = options.choice.expand.profile;
  plan.set = options.choice.expand.set;
  plan.repeats = options.choice.expand.repeats;
  plan.only = options.choice.expand.only;
  plan.results = std::filesystem::absolute(options.results).lexically_normal();
  plan.trainer = trainer;
  plan.time_limit_s = options.time_limit_seconds;
  plan.git = std::move(git);
  return {experiment.name, experiment.text, runner, plan, {}};
}

// Returns the record of the list that the runs belong to.
ExperimentRecord record_of(const Experiment& experiment, const Expansion& expansion) {
  const std::vector<std::string>& overrides = expansion.list_overrides;
  return {.name = list_name(experiment.name(), overrides),
          .title = list_name(experiment.title(), overrides),
          .file = absolute_file(experiment),
          .text = experiment.text(),
          .text_digest = text_digest(experiment.text()),
          .profile = expansion.profile,
          .compare = std::string(name_of(experiment.compare()))};
}

void check_for_slurm(const RunArguments& options, const Expansion& expansion) {
  check_jobs_of(expansion);
  if (options.max_parallel > 1) {
    throw ConfigError("--max-parallel", "",
                      "is for runs on this host; on a cluster, slurm.max_parallel limits an array");
  }
}

// Before runs begin there is nothing to save, so batch systems' signals end the process at once, as
// Ctrl-C does. Ignored signals stay ignored.
void end_at_signals_of_batch_systems() {
  for (const int signal_number : {SIGUSR1, SIGUSR2}) {
    const auto before =
        std::signal(signal_number, [](int) { _exit(static_cast<int>(ExitCode::kInterrupted)); });
    if (before == SIG_IGN) std::signal(signal_number, SIG_IGN);
  }
}

// Everything known before anything is created or started.
struct Preparation {
  explicit Preparation(const RunArguments& options)
      : host(find_host(options.choice.gpus)),
        experiment(Experiment::load(options.choice.file)),
        git(absolute_file(experiment)),
        expansion(experiment.expand(options.choice.expand, host.resources)),
        record(record_of(experiment, expansion)) {
    check_inputs_of(expansion);
    if (options.choice.expand.on_cluster) check_for_slurm(options, expansion);
    trainer = find_trainer(options.trainer);
    check_results_path(options.results);
    if (has_results(options.results)) results.emplace(options.results);
    if (results) results->require_own(record.name);
    chosen = planned_runs(record.name, expansion.runs, digest);
    left_out = left_out_runs(record.name, expansion.left_out, digest);
    trainer_digest = digest(trainer);
  }

  Host host;
  Experiment experiment;
  GitQuery git;
  Expansion expansion;
  ExperimentRecord record;
  std::filesystem::path trainer;
  std::optional<Store> results;  // empty: none yet
  std::vector<HashedFile> computed;
  const FileDigest digest = digest_of(results, computed);
  std::vector<RunRecord> chosen, left_out;
  std::string trainer_digest;
};

// Prepares the data that runs share. If the results are not writable, each run makes its own.
void prepare_data(const std::vector<RunRecord>& runs, const std::filesystem::path& results,
                  const FileDigest& digest, Progress& progress) {
  try {
    for (const PreparedData& data :
         prepare_data_of(mapped(runs, &RunRecord::spec), results, digest)) {
      if (data.was_made) progress.say("tokenized " + summary_of(data));
      if (!data.was_made && data.has_untrained_documents()) progress.say(summary_of(data));
    }
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    progress.warn(
        std::string("warning: data is not tokenized before the runs, so each run tokenizes it: ") +
        error.what());
  }
}

// Opens the results and their log; creates the results if there are none.
Store& open_store(Preparation& prepared, const RunArguments& options) {
  if (!prepared.results) prepared.results.emplace(options.results);
  log_to_file(std::filesystem::absolute(options.results) / "fsdp-run.log", options.log_level);
  log(LogLevel::kInfo, "start",
      fmt::format("experiment {}, {}, process {} on {}", prepared.record.name,
                  prepared.record.file.string(), getpid(), prepared.host.name));
  for (const HashedFile& file : prepared.computed) {
    if (file.is_settled) prepared.results->remember_digest(file.state, file.digest);
  }
  return *prepared.results;
}

void leave_out_oversized(std::vector<RunRecord>& runs, const PredictRun& predict,
                         const std::function<void(const std::string&)>& say) {
  std::erase_if(runs, [&](const RunRecord& run) {
    if (run.status == RunStatus::kFinished) return false;  // it did fit
    const auto plan = predict(run.spec);
    if (!plan || plan->fit != Fit::kDoesNotFit) return false;
    say(fmt::format("{}: left out (--skip-oversized): it is predicted to need {}", run.point,
                    excess_text(*plan)));
    return true;
  });
}

ExitCode run(const RunArguments& options) {
  end_at_signals_of_batch_systems();
  // Read now: a build may replace the file while jobs are followed, but the path stays the same.
  const std::filesystem::path runner = std::filesystem::read_symlink("/proc/self/exe");
  Preparation prepared(options);
  const ExperimentRecord& experiment = prepared.record;
  std::signal(SIGPIPE, SIG_IGN);  // runs go on if the output's reader is gone

  const std::unique_ptr<Progress> shown = make_progress(progress_mode(options));
  Progress& progress = *shown;
  const auto say = [&](const std::string& line) {
    log(LogLevel::kInfo, "plan", line);
    progress.say(line);
  };
  const ExperimentLock lock(options.results, experiment.name, say);
  Store& store = open_store(prepared, options);
  store.tell_of_files([&](const std::string& line) { progress.warn(line); });
  store.sync();
  warn_of_another_file(store, experiment, options.results, progress);
  if (!prepared.expansion.profile_reason.empty()) {
    progress.say("profile " + prepared.expansion.profile_reason);
  }
  for (const std::string& sentence : prepared.expansion.overridden) {
    progress.warn("warning: " + sentence);
  }

  const bool on_slurm = options.choice.expand.on_cluster;
  const auto kind_of_device = [&, gpus = device_kinds(prepared.host.gpus)](const RunSpec& spec) {
    return on_slurm ? slurm_device_kind(spec) : device_kind(spec, gpus);
  };
  RunPredictions predictions(prepared.expansion,
                             on_slurm ? std::nullopt : std::optional(prepared.host),
                             prepared.trainer, std::filesystem::absolute(options.results));
  const auto predict = [&](const RunSpec& spec) { return predictions.predict(spec); };
  const auto expected_value = [&](const auto& series, const std::string&) {
    return series->expected_largest(predict);
  };
  RunPlanner planner(store, prepared.digest,
                     {.device_kind = kind_of_device,
                      .rerun = options.rerun,
                      .expected_value = expected_value,
                      .skip_oversized = options.skip_oversized,
                      .say = say});
  const RunListeners listeners{store, progress,
                               std::filesystem::absolute(options.results).lexically_normal()};
  std::optional<SlurmRunner> slurm;
  if (on_slurm) {
    JobSubmission::Settings submission =
        submission_of(options, experiment, runner, prepared.trainer, prepared.git.result());
    submission.search_of = [&](const RunRecord& run) { return planner.search_of(run); };
    slurm.emplace(listeners, submission, options.slurm, planner);
    if (!slurm->pick_up()) return ExitCode::kInterrupted;
  }
  recover_attempts(store, options.results, experiment.name, say);
  std::vector<RunRecord> runs =
      planner.plan(experiment, prepared.expansion, prepared.chosen, prepared.left_out);
  if (options.skip_oversized) leave_out_oversized(runs, predict, say);
  check_checkpoints_are_free(store, options.results, runs);
  prepare_data(runs, options.results, prepared.digest, progress);
  if (planner.with_result() > 0) {
    progress.say(counted(planner.with_result(), "run") +
                 " with a result already; --rerun runs them again");
  }
  Provenance provenance;
  if (!slurm && !runs.empty()) {
    provenance =
        provenance_of_this_process(prepared.git.result(), prepared.trainer_digest, experiment.text);
  }
  const std::vector<RunRecord> planned = runs;
  const ExitCode code = slurm
                            ? slurm->run(std::move(runs))
                            : run_here(std::move(runs), planner, listeners, prepared.host, options,
                                       {.results = options.results,
                                        .trainer = prepared.trainer,
                                        .log_level = options.log_level,
                                        .host = prepared.host.name,
                                        .provenance = provenance,
                                        .time_limit = time_limit(options),
                                        .device_kind = kind_of_device,
                                        .predict = predict});
  progress.close();
  if (!options.slurm.detach) print_table(store, experiment, options, code);
  if (!slurm && code == ExitCode::kInterrupted) {
    std::cerr << visible_line(how_to_go_on(store, options.results, planned)) << '\n';
  }
  return code;
}

}  // namespace

CommandFunction add_run_command(CLI::App& command) {
  const auto options = std::make_shared<RunArguments>();
  command.footer(R"(Examples:
  fsdp-run experiments/lab.yaml --only 4xFSDP --rerun
  fsdp-run experiments/lab.yaml --set train.steps=20 --results /tmp/try
  fsdp-run experiments/lab.yaml --time-limit 30m --json | ./watcher.py)");
  command.option_defaults()->group(kRunGroup);
  add_question_options(command, *options);
  command.add_flag("--rerun", options->rerun, "Also run what has a result; begin all runs anew");
  command.add_flag("--skip-oversized", options->skip_oversized,
                   "Leave out runs that are predicted not to fit");
  command.add_flag("--share", options->share,
                   "Run even if others use the devices; their rows are marked");
  command.add_flag("--dry-run", options->dry_run,
                   "Print each run's specification, and the job scripts; do nothing");
  command.add_flag("--per-rank", options->per_rank, "Memory and time of each rank in the table");
  command
      .add_option("--max-parallel", options->max_parallel,
                  "Runs side by side; more than 1 disturbs timings")
      ->option_text("N=1")
      ->check(CLI::Range(1, 10'000, "from 1 to 10000"));
  command
      .add_option("--time-limit", options->time_limit_seconds,
                  "Time limit of each run: 90s, 30m, 2h")
      ->transform(time_limit_units())
      ->check(CLI::Range(1.0, kLongestTimeLimitSeconds, "from 1s to 10000h"))
      ->option_text("TIME");
  CLI::Option* quiet =
      command.add_flag("--quiet", options->quiet, "Only warnings, failures and the table");
  command.add_flag("--json", options->json, "For programs: progress and table as lines of JSON")
      ->excludes(quiet);
  CLI::Option* detach = command.add_flag("--detach", options->slurm.detach,
                                         "Submit to Slurm and return; the jobs go on");
  command
      .add_flag("--follow", options->slurm.follow,
                "Follow jobs of Slurm; submit only runs that follow from ended ones")
      ->excludes(detach);
  std::map<std::string, LogLevel> levels;
  for (const std::string_view name : enum_names(LogLevel())) {
    levels.emplace(name, *enum_from_name<LogLevel>(name));
  }
  command
      .add_option("--log-level", options->log_level, "Level of fsdp-run.log and of the ranks' logs")
      ->transform(CLI::Transformer(levels))
      ->option_text("LEVEL=info");
  command.add_option("--query-interval", options->slurm.query_interval_s)
      ->check(number_within(0.001, 3600, "from 0.001 to 3600"))
      ->group("");
  return [options] {
    if (options->slurm.detach || options->slurm.follow) {
      options->choice.expand.on_cluster = true;
    }
    return options->dry_run ? dry_run(*options) : run(*options);
  };
}

}  // namespace fsdp
