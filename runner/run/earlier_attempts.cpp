#include "runner/run/earlier_attempts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <variant>

#include "base/system/unix_time.h"
#include "runner/store/event_files.h"

namespace fsdp {
namespace {

int newest_attempt(const Store& store, const RunRecord& run) {
  const std::optional<RunRecord> record = store.run(run.id);
  return record ? record->attempt : 0;
}

// Asks the file server about the folder. Returns false if the folder cannot be opened. Opening asks
// the server, except on mounts with the option nocto.
bool ask_server(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  struct statx status {};
  statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &status);
  close(descriptor);
  return true;
}

}  // namespace

std::vector<int> import_attempts(Store& store, const std::filesystem::path& results,
                                 const RunRecord& run, const JobRecord& job, const JobTask& task,
                                 const WarnOfFile& warn) {
  const RunPaths paths(results / run.folder);
  const auto is_there = [&](int attempt) {
    return std::filesystem::exists(paths.attempt(attempt));
  };
  if (!is_there(newest_attempt(store, run) + 1)) return {};

  std::vector<int> begun;
  Store::Batch batch(store);
  for (int attempt = newest_attempt(store, run) + 1; is_there(attempt); ++attempt) {
    std::optional<AttemptStart> start = read_start(paths, attempt, warn);
    if (!start || start->slurm_job.empty() || start->slurm_job != slurm_name(job, task.task)) {
      continue;
    }
    if (start->device_kind.empty()) start->device_kind = task.device_kind;
    begun.push_back(store.begin_attempt(run.id, *start, attempt));
  }
  batch.commit();
  return begun;
}

namespace {

// Returns the start of an attempt of a job that is not open. nullopt: it is none.
std::optional<AttemptStart> start_in_ended_job(const Store& store, const RunRecord& run,
                                               const RunPaths& paths, int attempt,
                                               const WarnOfFile& warn) {
  std::optional<AttemptStart> start = read_start(paths, attempt, warn);
  if (!start || start->slurm_job.empty()) return std::nullopt;
  const auto may_be_of = [&](const JobRecord& job) {
    return job.slurm_job.empty() || std::ranges::any_of(job.tasks, [&](const JobTask& task) {
             return !task.over && slurm_name(job, task.task) == start->slurm_job;
           });
  };
  return std::ranges::none_of(store.jobs_of_run(run.id), may_be_of) ? start : std::nullopt;
}

// nullopt if a runner or an open job started the attempt, or if rank 0 has written no event.
std::optional<AttemptStart> start_of_others(const Store& store, const RunRecord& run,
                                            const RunPaths& paths, int attempt,
                                            const WarnOfFile& warn) {
  if (std::filesystem::exists(paths.launch_record(attempt))) {
    return start_in_ended_job(store, run, paths, attempt, warn);
  }
  EventTail tail(paths, attempt, static_cast<int>(run.spec.strategy.ranks), warn);
  const std::vector<std::vector<Event>> events = tail.poll();
  if (events.front().empty()) return std::nullopt;
  const Event& first = events.front().front();
  const auto* started = std::get_if<RunStarted>(&first.body);
  AttemptStart start;
  start.started_unix_ms = first.time_unix_ms - first.elapsed_ms.value_or(0);
  if (started) start.host = started->host;
  start.device_kind = started && !started->device_name.empty() ? started->device_name : "cpu";
  return start;
}

// Returns nullopt and records nothing if the attempt may still be running.
std::optional<Ending> import_if_ended(Store& store, const std::filesystem::path& results,
                                      const RunRecord& run, int attempt, const AttemptStart& start,
                                      const WarnOfFile& warn) {
  Store::Batch batch(store);
  store.begin_attempt(run.id, start, attempt);
  ingest_rest(store, results, run, attempt, warn);
  const AttemptEnd end = read_end(RunPaths(results / run.folder), attempt, warn);
  const bool has_ended =
      end.outcome != LaunchOutcome::kUnseen || reports_decide(store.rank_ends(run.id, attempt));
  if (!has_ended) return std::nullopt;
  const Ending ending = close_attempt(store, results, run, attempt, end);
  batch.commit();
  return ending;
}

}  // namespace

std::vector<int> unrecorded_attempts(const Store& store, int64_t run, const RunPaths& paths) {
  std::vector<int> attempts = attempts_with_folder(paths);
  if (attempts.empty()) return attempts;
  for (const AttemptRecord& known : store.attempts(run)) std::erase(attempts, known.attempt);
  return attempts;
}

int import_attempts_of_others(Store& store, const std::filesystem::path& results,
                              std::string_view experiment, const WarnOfFile& say) {
  int recorded = 0;
  for (RunRecord& run : store.runs()) {
    if (run.experiment != experiment || !run.source.empty()) continue;
    const RunPaths paths(results / run.folder);
    for (const int attempt : unrecorded_attempts(store, run.id, paths)) {
      run.spec = store.spec(run.id);
      const auto start = start_of_others(store, run, paths, attempt, say);
      if (!start) continue;
      const auto ending = import_if_ended(store, results, run, attempt, *start, say);
      recorded += ending ? 1 : 0;
      const std::string& job = start->slurm_job;
      say(fmt::format(
          "{}: attempt {}, {}, {}{}", run.point, attempt,
          job.empty() ? "started by hand" : "of the job " + job,
          ending ? "is recorded as " : "has not ended, or was killed, and is not recorded",
          ending ? name_of(ending->status) : ""));
    }
  }
  return recorded;
}

void ask_again_for_names(const RunPaths& run, int attempt) {
  if (!ask_server(run.folder())) return;
  while (ask_server(run.attempt(attempt))) ++attempt;
}

namespace {

// Records the starts of attempts that runners began while the database could not be written.
void import_attempts_of_runners(Store& store, const std::filesystem::path& results,
                                std::string_view experiment, const WarnOfFile& warn) {
  for (const RunRecord& run : store.runs()) {
    if (run.experiment != experiment || !run.source.empty()) continue;
    const RunPaths paths(results / run.folder);
    for (const int attempt : unrecorded_attempts(store, run.id, paths)) {
      const std::optional<AttemptStart> start = read_start(paths, attempt, warn);
      if (start && start->slurm_job.empty()) store.begin_attempt(run.id, *start, attempt);
    }
  }
}

}  // namespace

int recover_attempts(Store& store, const std::filesystem::path& results,
                     std::string_view experiment,
                     const std::function<void(const std::string&)>& say) {
  import_attempts_of_runners(store, results, experiment, say);
  std::vector<RunningAttempt> attempts = store.running_attempts(experiment);
  for (RunningAttempt& found : attempts) {
    RunRecord& run = found.run;
    run.spec = store.spec(run.id);
    AttemptEnd end = read_end(RunPaths(results / run.folder), found.attempt, say);
    const bool was_killed = end.outcome == LaunchOutcome::kUnseen;
    if (was_killed) end.ended_unix_ms = found.start.started_unix_ms;
    ingest_rest(store, results, run, found.attempt, say);
    const Ending ending = close_attempt(store, results, run, found.attempt, end);
    say(fmt::format("{}: the runner of attempt {} {}; recorded as {}", run.point, found.attempt,
                    was_killed ? "was killed" : "could not record its end",
                    name_of(ending.status)));
  }
  return static_cast<int>(attempts.size());
}

namespace {

// True if the attempt ended because its job ended.
bool ended_with_job(LaunchOutcome outcome) {
  return outcome == LaunchOutcome::kTimeLimit || outcome == LaunchOutcome::kInterrupted ||
         outcome == LaunchOutcome::kNodeFailed || outcome == LaunchOutcome::kUnseen;
}

// Judges an attempt from an earlier start of the job, and returns its status.
RunStatus end_earlier_attempt(const std::filesystem::path& results, const RunRecord& run,
                              int attempt, RankReports& reports, FileDigests& digests,
                              Progress& progress) {
  const RunPaths paths(results / run.folder);
  const WarnOfFile warn = [&](const std::string& line) { progress.warn(line); };
  EventTail tail(paths, attempt, static_cast<int>(run.spec.strategy.ranks), warn);
  read_to_end(results, [&] {
    reports.add(tail.poll());
    return tail.at_end();
  });
  AttemptEnd end = read_end(paths, attempt, warn);
  if (end.outcome == LaunchOutcome::kUnseen) end.ended_unix_ms = now_unix_ms();
  end.in_job = true;
  end.was_requeued = ended_with_job(end.outcome);
  const Ending ending = judge_and_check_inputs(results, run, attempt, reports.ends(), digests, end);
  if (end.outcome == LaunchOutcome::kUnseen && ending.is_result()) {
    end.outcome = LaunchOutcome::kExited;
    write_end(paths, attempt, end);  // for the runner that follows the job
  }
  progress.say(fmt::format("{}: attempt {}, from an earlier start of the job: {}{}{}", run.point,
                           attempt, name_of(ending.status), ending.reason.empty() ? "" : ", ",
                           ending.reason));
  return ending.status;
}

}  // namespace

std::vector<RunRecord> left_to_launch(std::vector<RunRecord> runs,
                                      const std::filesystem::path& results, JobOfLoop& job,
                                      FileDigests& digests, Progress& progress,
                                      const FollowUp& follow_up) {
  const WarnOfFile warn = [&](const std::string& line) { progress.warn(line); };
  std::vector<RunRecord> left;
  for (RunRecord& first : runs) {
    std::optional<RunRecord> run = std::move(first);
    while (run) {
      const RunPaths paths(results / run->folder);
      bool was_begun = false;
      const int known = run->attempt;
      for (const int attempt : attempts_with_folder(paths)) {
        if (attempt <= known) continue;
        const std::optional<AttemptStart> start = read_start(paths, attempt, warn);
        if (!start || start->slurm_job != job.id) continue;
        RankReports reports(run->spec.strategy.ranks);
        run->status = end_earlier_attempt(results, *run, attempt, reports, digests, progress);
        job.ended[run->id].add(run->status, reports.checkpoint_step());
        run->attempt = attempt;
        run->begins_anew = false;
        was_begun = true;
      }
      const int64_t in_a_row = job.ended[run->id].in_a_row;
      if (in_a_row > run->spec.slurm.max_restarts) {
        progress.say(run->point + ": not started again" + restarts_ran_out(in_a_row));
        AttemptEnd end = read_end(paths, run->attempt, warn);
        end.starts_in_a_row = in_a_row;
        write_end(paths, run->attempt, end);  // for the runner that follows the job
        break;
      }
      if (!was_begun || is_cut_short(run->status)) {
        left.push_back(std::move(*run));
        break;
      }
      run = follow_up(*run, run->status);
    }
  }
  return left;
}

}  // namespace fsdp
