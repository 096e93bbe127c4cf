#include "runner/commands/run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>

#include "base/files/digest.h"
#include "base/files/file_digest.h"
#include "base/system/log.h"
#include "base/text/utf8.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/commands/check.h"
#include "runner/commands/console.h"
#include "runner/commands/report.h"
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
#include "runner/store/results_unavailable.h"
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

// Brings the index up to date after the last run.
void bring_up_to_date(Store& store, Progress& progress) try {
  store.sync();
} catch (const ResultsUnavailable& error) {
  progress.warn(std::string("the table lacks the newest results, which are in their files: ") +
                error.what());
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

  // Read now: a build may replace the file while jobs are followed, but the path stays the same.
  std::filesystem::path runner = std::filesystem::read_symlink("/proc/self/exe");
  Host host;
  Experiment experiment;
  GitQuery git;
  Expansion expansion;
  ExperimentRecord record;
  std::filesystem::path trainer;
  std::optional<Store> results;  // empty: none yet
  FileDigests digests;
  const FileDigest digest = remembered([this](const std::filesystem::path& file) {
    if (results) digests.take(*results, file);
    return digests.current(file);
  });
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
  for (const auto& [state, digest] : prepared.digests.computed()) {
    prepared.results->remember_digest(state, digest);
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

JobSubmission::Settings submission_of(const RunArguments& options, Preparation& prepared,
                                      const RunPlanner& planner) {
  JobPlan plan;
  plan.file = prepared.record.file;
  plan.working_directory = std::filesystem::current_path();
  plan.profile = options.choice.expand.profile;
  plan.set = options.choice.expand.set;
  plan.repeats = options.choice.expand.repeats;
  plan.only = options.choice.expand.only;
  plan.results = std::filesystem::absolute(options.results).lexically_normal();
  plan.trainer = prepared.trainer;
  plan.time_limit_s = options.time_limit_seconds;
  plan.git = prepared.git.result();
  return {prepared.record.name, prepared.record.text, prepared.runner, plan,
          [&planner](const RunRecord& run) { return planner.search_of(run); }};
}

// Plans which of the prepared runs are launched, and executes them here or on Slurm.
class RunCall {
 public:
  // Locks the experiment, and opens its results.
  RunCall(const RunArguments& options, Preparation& prepared);

  ExitCode run();

 private:
  // Returns the runs to launch, with their data prepared.
  std::vector<RunRecord> plan();
  ExitCode execute(const std::vector<RunRecord>& runs);
  std::string device_kind_of(const RunSpec& spec) const;

  const RunArguments& options_;
  Preparation& prepared_;
  const ExperimentRecord& experiment_ = prepared_.record;
  const bool on_slurm_ = options_.choice.expand.on_cluster;
  const std::string gpu_kinds_ = device_kinds(prepared_.host.gpus);
  const std::unique_ptr<Progress> progress_ = make_progress(progress_mode(options_));
  const std::function<void(const std::string&)> say_ = [this](const std::string& line) {
    log(LogLevel::kInfo, "plan", line);
    progress_->say(line);
  };
  const ExperimentLock lock_{options_.results, experiment_.name, say_};
  Store& store_ = open_store(prepared_, options_);
  const RunListeners listeners_{store_, *progress_,
                                std::filesystem::absolute(options_.results).lexically_normal()};
  RunPredictions predictions_;
  const PredictRun predict_ = [this](const RunSpec& spec) { return predictions_.predict(spec); };
  RunPlanner planner_;
  std::optional<SlurmRunner> slurm_;
};

RunCall::RunCall(const RunArguments& options, Preparation& prepared)
    : options_(options),
      prepared_(prepared),
      predictions_(prepared.expansion, on_slurm_ ? std::nullopt : std::optional(prepared.host),
                   prepared.trainer, std::filesystem::absolute(options.results)),
      planner_(store_, prepared.digest,
               {.device_kind = [this](const RunSpec& spec) { return device_kind_of(spec); },
                .rerun = options.rerun,
                .predict = predict_,
                .skip_oversized = options.skip_oversized,
                .say = say_,
                .results = on_slurm_ ? std::filesystem::path() : options.results}) {}

std::string RunCall::device_kind_of(const RunSpec& spec) const {
  if (on_slurm_) return slurm_device_kind(spec);
  return spec.device == DeviceKind::kCuda ? gpu_kinds_ : "cpu";
}

ExitCode RunCall::run() {
  store_.tell_of_files([this](const std::string& line) { progress_->warn(line); });
  store_.sync();
  warn_of_another_file(store_, experiment_, options_.results, *progress_);
  const Expansion& expansion = prepared_.expansion;
  if (!expansion.profile_reason.empty()) progress_->say("profile " + expansion.profile_reason);
  for (const std::string& sentence : expansion.overridden) progress_->warn("warning: " + sentence);
  if (on_slurm_) {
    slurm_.emplace(listeners_, submission_of(options_, prepared_, planner_), options_.slurm,
                   planner_);
    if (!slurm_->pick_up()) return ExitCode::kInterrupted;
  }
  const std::vector<RunRecord> runs = plan();
  const ExitCode code = execute(runs);
  if (!slurm_ && !runs.empty()) bring_up_to_date(store_, *progress_);
  progress_->close();
  if (options_.prints_table && !options_.slurm.detach)
    print_table(store_, experiment_, options_, code);
  if (!slurm_ && code == ExitCode::kInterrupted) {
    std::cerr << visible_line(how_to_go_on(store_, options_.results, runs)) << '\n';
  }
  return code;
}

std::vector<RunRecord> RunCall::plan() {
  recover_attempts(store_, options_.results, experiment_.name, say_);
  std::vector<RunRecord> runs = planner_.plan(
      experiment_, prepared_.expansion, std::move(prepared_.chosen), std::move(prepared_.left_out));
  if (options_.skip_oversized) leave_out_oversized(runs, predict_, say_);
  check_checkpoints_are_free(store_, options_.results, runs);
  prepare_data(runs, options_.results, prepared_.digest, *progress_);
  if (planner_.with_result() > 0) {
    progress_->say(counted(planner_.with_result(), "run") +
                   " with a result already; --rerun runs them again");
  }
  return runs;
}

ExitCode RunCall::execute(const std::vector<RunRecord>& runs) {
  if (slurm_) return slurm_->run(runs);
  const std::optional<std::chrono::seconds> limit = time_limit(options_);
  LoopSettings settings{.results = options_.results,
                        .trainer = prepared_.trainer,
                        .log_level = options_.log_level,
                        .host = prepared_.host.name,
                        .time_limit = limit,
                        .device_kind = [this](const RunSpec& spec) { return device_kind_of(spec); },
                        .predict = predict_};
  if (!runs.empty()) {
    settings.provenance = provenance_of_this_process(prepared_.git.result(),
                                                     prepared_.trainer_digest, experiment_.text);
  }
  return run_here(runs, planner_, listeners_, prepared_.digests, prepared_.host, options_,
                  std::move(settings));
}

}  // namespace

ExitCode run_experiment(const RunArguments& options) {
  end_at_signals_of_batch_systems();
  Preparation prepared(options);
  std::signal(SIGPIPE, SIG_IGN);  // runs go on if the output's reader is gone
  return RunCall(options, prepared).run();
}

namespace {

// Prints the specification of each run, and the jobs' scripts. Starts, creates and writes nothing.
ExitCode dry_run(const RunArguments& options) {
  Choice choice = options.choice;
  choice.expand.check_gpus = false;
  const Experiment experiment = Experiment::load(choice.file);
  const Expansion expansion = experiment.expand(choice.expand, find_host(choice.gpus).resources);
  check_inputs_of(expansion);
  if (choice.expand.on_cluster) check_jobs_of(expansion);
  const std::string list = list_name(experiment.name(), expansion.list_overrides);
  const auto planned = planned_runs(list, expansion.runs, remembered(file_digest));
  std::string text = "# " + counted(std::ssize(planned), "run") + '\n';
  if (!expansion.profile_reason.empty()) text += "# profile " + expansion.profile_reason + '\n';
  for (const std::string& sentence : expansion.overridden) {
    text += "# warning: " + visible_line(sentence) + '\n';
  }
  for (size_t i = 0; i < planned.size(); ++i) {
    const RunRecord& run = planned[i];
    text += "---\n# point: ";
    append_json_string(text, run.point);  // a name may hold line feeds
    text += fmt::format("\n# hash: {}\n# folder: {}\n", run.hash,
                        visible_line((options.results / run.folder).string()));
    if (const auto& doubling = expansion.runs[i].doubling) {
      text += "# " + visible_line(doubling->outlook()) + '\n';
    }
    text += to_yaml(run.spec);
  }
  if (choice.expand.on_cluster) text += job_scripts(list, expansion.runs, options.results);
  std::cout << text;
  return ExitCode::kOk;
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
    return options->dry_run ? dry_run(*options) : run_experiment(*options);
  };
}

}  // namespace fsdp
