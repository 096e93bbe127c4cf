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

// Reads the start of an attempt that has no launch.json. Returns nullopt if rank 0 has written no
// event: a runner was killed before it wrote the file. Sets `has_ended`.
std::optional<AttemptStart> start_by_hand(const RunPaths& paths, int attempt, int ranks,
                                          const WarnOfFile& warn, bool& has_ended) {
  EventTail tail(paths, attempt, ranks, warn);
  RankReports reports(ranks);
  std::optional<Event> first;
  do {
    const std::vector<std::vector<Event>> events = tail.poll();
    reports.add(events);
    if (!first && !events.front().empty()) first = events.front().front();
  } while (!tail.at_end());
  if (!first) return std::nullopt;
  has_ended = reports_decide(reports.ends());
  AttemptStart start;
  start.started_unix_ms = first->time_unix_ms - first->elapsed_ms.value_or(0);
  const auto* started = std::get_if<RunStarted>(&first->body);
  if (started) start.host = started->host;
  start.device_kind = started && !started->device_name.empty() ? started->device_name : "cpu";
  return start;
}

// Writes launch.json of attempts that people started and that have ended.
void adopt_attempts_by_hand(const Store& store, const std::filesystem::path& results,
                            std::string_view experiment, const WarnOfFile& say) {
  for (const RunRecord& run : store.runs()) {
    if (run.experiment != experiment || !run.source.empty()) continue;
    const RunPaths paths(results / run.folder);
    for (const int attempt : attempts_with_folder(paths)) {
      if (std::filesystem::exists(paths.launch_record(attempt))) continue;
      const auto ranks = static_cast<int>(store.spec(run.id).strategy.ranks);
      bool has_ended = false;
      const auto start = start_by_hand(paths, attempt, ranks, say, has_ended);
      if (start && has_ended) {
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
    if (!is_seen && !job.empty() && !reports_decide(store.rank_ends(run.id, found.attempt))) {
      say(fmt::format(
          "{}: attempt {}, of the job {}, has not ended, or was killed, and is not recorded",
          run.point, found.attempt, job));
      continue;
    }
    if (!is_seen) end.ended_unix_ms = found.start.started_unix_ms;
    const Ending ending = close_attempt(store, results, run, found.attempt, end);
    say(fmt::format("{}: {} recorded as {}", run.point, whose_attempt(found, is_seen),
                    name_of(ending.status)));
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
