#include "runner/run/earlier_attempts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <variant>

#include "runner/store/event_files.h"

namespace fsdp {
namespace {

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

void ask_again_for_names(const RunPaths& run, int attempt) {
  if (!ask_server(run.folder())) return;
  while (ask_server(run.attempt(attempt))) ++attempt;
}

namespace {

// Returns the start of an attempt that has no launch.json. Returns nullopt if rank 0 has written no
// event: a runner was killed before it wrote the file.
std::optional<AttemptStart> start_by_hand(const AttemptReports& reports) {
  const RankState& first = reports.ranks().front();
  if (!first.last_event_unix_ms) return std::nullopt;
  AttemptStart start;
  start.started_unix_ms = first.started_unix_ms.value_or(*first.last_event_unix_ms);
  start.host = reports.facts(0).host;
  start.device_kind = reports.facts(0).device_name;
  if (start.device_kind.empty()) start.device_kind = "cpu";
  return start;
}

// Writes launch.json of attempts that people started and that have ended.
void adopt_attempts_by_hand(const Store& store, const std::filesystem::path& results,
                            std::string_view experiment, const WarnOfFile& say) {
  for (RunRecord& run : store.runs()) {
    if (run.experiment != experiment || !run.source.empty()) continue;
    const RunPaths paths(results / run.folder);
    for (const int attempt : attempts_with_folder(paths)) {
      if (std::filesystem::exists(paths.launch_record(attempt))) continue;
      run.spec = store.spec(run.id);
      const AttemptReports reports = read_reports(results, run, attempt, say);
      const auto start = start_by_hand(reports);
      if (start && reports_decide(reports.ranks())) {
        write_start(paths, attempt, *start);
      } else if (start) {
        say(
            fmt::format("{}: attempt {}, started by hand, has not ended, or was killed, and is not "
                        "recorded",
                        run.point, attempt));
      }
    }
  }
}

// "the runner of attempt 2 was killed", for the user.
std::string whose_attempt(const RunningAttempt& found, bool is_end_seen) {
  const AttemptStart& start = found.start;
  if (!start.slurm_job.empty()) {
    return fmt::format("attempt {}, of the job {}, is", found.attempt, start.slurm_job);
  }
  if (start.runner_process_id == 0) {
    return fmt::format("attempt {}, started by hand, is", found.attempt);
  }
  return fmt::format("the runner of attempt {} {};", found.attempt,
                     is_end_seen ? "could not record its end" : "was killed");
}

}  // namespace

int recover_attempts(Store& store, const std::filesystem::path& results,
                     std::string_view experiment,
                     const std::function<void(const std::string&)>& say) {
  adopt_attempts_by_hand(store, results, experiment, say);
  store.sync();
  int judged = 0;
  for (RunningAttempt& found : store.running_attempts(experiment)) {
    RunRecord& run = found.run;
    run.spec = store.spec(run.id);
    AttemptEnd end = read_end(RunPaths(results / run.folder), found.attempt, say);
    const bool is_seen = end.outcome != LaunchOutcome::kUnseen;
    const std::string& job = found.start.slurm_job;
    const AttemptReports reports = read_reports(results, run, found.attempt, say);
    if (!is_seen && !job.empty() && !reports_decide(reports.ranks())) {
      say(fmt::format(
          "{}: attempt {}, of the job {}, has not ended, or was killed, and is not recorded",
          run.point, found.attempt, job));
      continue;
    }
    if (!is_seen) end.ended_unix_ms = found.start.started_unix_ms;
    const Verdict verdict = close_attempt(store, results, run, found.attempt, reports.ranks(), end);
    say(fmt::format("{}: {} recorded as {}", run.point, whose_attempt(found, is_seen),
                    name_of(verdict.status)));
    ++judged;
  }
  return judged;
}

namespace {

// True if the attempt ended because its job ended.
bool ended_with_job(LaunchOutcome outcome) {
  return outcome == LaunchOutcome::kTimeLimit || outcome == LaunchOutcome::kInterrupted ||
         outcome == LaunchOutcome::kNodeFailed || outcome == LaunchOutcome::kUnseen;
}

// Judges an attempt from an earlier start of the job, unless it has a verdict, and returns its
// status. On a failed node, ranks may have come to a result after the verdict.
RunStatus end_earlier_attempt(const std::filesystem::path& results, const RunRecord& run,
                              int attempt, const AttemptReports& reports, FileDigests& digests,
                              Progress& progress, const WarnOfFile& warn) {
  const RunPaths paths(results / run.folder);
  const auto known = read_verdict(paths, attempt, warn);
  const bool has_result = judge_by_ranks(reports.ranks()).is_result();
  if (known && (!has_result || known->is_result())) return known->status;
  AttemptEnd end = read_end(paths, attempt, warn);
  if (end.outcome == LaunchOutcome::kUnseen) {
    end.ended_unix_ms = last_write_unix_ms(paths.attempt(attempt));
  }
  end.in_job = true;
  end.was_requeued = ended_with_job(end.outcome);
  const Verdict verdict =
      judge_and_check_inputs(results, run, attempt, reports.ranks(), digests, end);
  write_verdict(paths, attempt, verdict);
  progress.say(fmt::format("{}: attempt {}, from an earlier start of the job: {}{}{}", run.point,
                           attempt, name_of(verdict.status), verdict.reason.empty() ? "" : ", ",
                           verdict.reason));
  return verdict.status;
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
        const AttemptReports reports = read_reports(results, *run, attempt, warn);
        run->status = end_earlier_attempt(results, *run, attempt, reports, digests, progress, warn);
        job.ended[run->id].add(run->status, reports.progress().saved_step);
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
