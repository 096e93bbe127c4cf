// Follows jobs of Slurm by the index and by the queue's answers. Other ends than those that the
// job's own loop saw are judged here, once the job waits again or is over.
#include "runner/cluster/job_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/system/unix_time.h"
#include "contract/record/host_memory.h"
#include "contract/record/run_paths.h"
#include "runner/cluster/answers.h"
#include "runner/cluster/complaints.h"
#include "runner/cluster/job_plan.h"
#include "runner/cluster/job_submission.h"
#include "runner/cluster/script.h"
#include "runner/cluster/slurm.h"
#include "runner/run/earlier_attempts.h"

namespace fsdp {
namespace {

// The longest delay from Slurm's report of a job's end to the appearance of the job's files. An NFS
// client remembers absent names for longer. ask_again_for_names() handles that without a wait.
constexpr std::chrono::seconds kFilesLag{6};
// Slurm counts in seconds and queries take time, so ends that differ by less are the same.
constexpr int64_t kSameEndMs = 30'000;

std::optional<int64_t> end_of_time_limit(const TaskState& state, std::optional<int64_t> known) {
  if (!state.seconds_left) return std::nullopt;
  const int64_t ends = now_unix_ms() + *state.seconds_left * 1000;
  return known && std::abs(ends - *known) < kSameEndMs ? *known : ends;
}

Verdict verdict_of(const AttemptRecord& attempt) {
  return {attempt.status, attempt.reason, static_cast<int>(attempt.reason_rank.value_or(-1)),
          attempt.ended_unix_ms.value_or(0)};
}

}  // namespace

JobFollower::JobFollower(const RunListeners& listeners, std::function<TimePoint()> now)
    : listeners_(listeners), now_(std::move(now)) {}

RunPaths JobFollower::paths(const Run& run) const {
  return RunPaths(listeners_.results / run.record.folder);
}

void JobFollower::follow(JobRecord recorded, std::span<const RunRecord> runs, bool can_be_asked) {
  std::map<int64_t, const RunRecord*> run_of;
  for (const RunRecord& run : runs) run_of.emplace(run.id, &run);
  const uid_t user = submitter_of(listeners_.results / recorded.folder);
  Job& job = jobs_.emplace_back(Job{std::move(recorded), user, can_be_asked});
  for (const JobTask& task : job.recorded.tasks) {
    const auto run = run_of.find(task.run);
    if (!task.over && run != run_of.end()) add(job, task, *run->second);
  }
}

// Jobs have the runs of one part in a row.
void JobFollower::add(Job& job, const JobTask& task, const RunRecord& record) {
  std::string name = slurm_name(job.recorded, task.task);
  if (job.parts.empty() || job.parts.back().name != name) {
    job.parts.push_back({std::move(name)});
  }
  Part& part = job.parts.back();
  Run& run = part.runs.emplace_back(task, record);
  run.is_queued = record.status == RunStatus::kQueued;
  if (record.status == RunStatus::kCancelled) {  // by fsdp-run cancel
    const std::vector<AttemptRecord> own = attempts_of(part, run);
    run.is_queued = own.empty() || own.back().status != RunStatus::kRunning;
  }
  run.seen_attempt = run.is_queued ? record.attempt : 0;
  listeners_.progress.expect(record.id, {.point = record.point});
  listeners_.progress.queued(record.id, part.name);
}

// Adds the runs that the job has chosen by itself: next values of doubled keys.
void JobFollower::add_chosen_runs(Job& job) {
  for (RunRecord& chosen : listeners_.store.runs_chosen_by(job.recorded)) {
    chosen.spec = listeners_.store.spec(chosen.id);
    const RunRecord run = listeners_.store.plan_one_more(job.recorded.experiment, chosen);
    const JobTask task = task_of(run, std::ssize(job.recorded.tasks));
    job.recorded.tasks.push_back(task);
    job.is_changed = true;
    add(job, task, run);
  }
}

void JobFollower::forget() {
  jobs_.clear();
  ended_.clear();
}

TasksByUser JobFollower::tasks() const {
  TasksByUser names;
  for (const Job& job : jobs_) {
    if (!job.can_be_asked) continue;
    for (const Part& part : job.parts) names[job.user].push_back(part.name);
  }
  return names;
}

bool JobFollower::any(const std::function<bool(const Part&, const Run&)>& holds) const {
  return std::ranges::any_of(jobs_, [&](const Job& job) {
    return std::ranges::any_of(job.parts, [&](const Part& part) {
      return std::ranges::any_of(part.runs, [&](const Run& run) { return holds(part, run); });
    });
  });
}

bool JobFollower::follows(int64_t run) const {
  return any(
      [&](const Part&, const Run& each) { return each.record.id == run && !each.is_done(); });
}

bool JobFollower::follows_family(std::string_view family) const {
  return !family.empty() &&
         any([&](const Part&, const Run& each) { return each.record.family == family; });
}

bool JobFollower::waits_for_files() const {
  return any([](const Part& part, const Run&) { return part.over_since.has_value(); });
}

std::vector<AttemptRecord> JobFollower::attempts_of(const Part& part, const Run& run) const {
  if (part.name.empty()) return {};  // sbatch has not answered
  std::vector<AttemptRecord> attempts = listeners_.store.attempts(run.record.id);
  std::erase_if(attempts, [&](const auto& attempt) { return attempt.slurm_job != part.name; });
  return attempts;
}

bool JobFollower::read_events() {
  bool some_ended = false;
  std::set<std::filesystem::path> news;
  std::vector<std::pair<Part*, Run*>> running;
  for (Job& job : jobs_) {
    for (Part& part : job.parts) {
      for (Run& run : part.runs) {
        if (!run.attempt) continue;
        const bool had_ended = reports_decide(run.attempt->reports().ranks());
        const auto events = run.attempt->read();
        some_ended |= !had_ended && reports_decide(run.attempt->reports().ranks());
        const bool has_verdict =
            std::filesystem::exists(verdict_file(paths(run), run.attempt->attempt()));
        if (!has_verdict && std::ranges::all_of(events, &std::vector<Event>::empty)) continue;
        news.insert(run.record.folder);
        running.emplace_back(&part, &run);
      }
    }
  }
  listeners_.store.sync(news);
  for (const auto& [part, run] : running) {
    look(*part, *run);
    some_ended |= !run->attempt;
  }
  return some_ended;
}

void JobFollower::look(const Part& part, Run& run) {
  for (const AttemptRecord& attempt : attempts_of(part, run)) {
    const bool is_open = run.attempt && run.attempt->attempt() == attempt.attempt;
    if (!is_open && attempt.attempt <= run.seen_attempt) continue;
    if (!is_open) open(run, attempt);
    if (attempt.status != RunStatus::kRunning) show_end(run, verdict_of(attempt));
  }
  if (run.attempt) run.attempt->read();
}

void JobFollower::open(Run& run, const AttemptRecord& attempt) {
  run.record.spec = listeners_.store.spec(run.record.id);
  run.seen_attempt = attempt.attempt;
  run.is_queued = false;
  run.ended.reset();
  // The file server's clock, unlike the node's, tells if the node's clock is behind.
  const int64_t started = write_unix_ms(paths(run).launch_record(attempt.attempt));
  run.attempt =
      std::make_unique<OpenAttempt>(listeners_.progress, listeners_.results, run.record,
                                    attempt.attempt, std::max(attempt.started_unix_ms, started));
  show_start(listeners_.progress, run.record);
}

// Shows the end of the attempt, if it is open, else the end of the run.
void JobFollower::show_end(Run& run, const Verdict& verdict) const {
  if (run.attempt) {
    read_rest(*run.attempt);
    run.attempt->show_end(verdict);
  } else if (run.ended != verdict.status) {
    listeners_.progress.ended(run.record.id, verdict.status, verdict.reason, {});
  }
  run.attempt.reset();
  run.ended = verdict.status;
}

void JobFollower::read_rest(OpenAttempt& attempt) const {
  read_to_end(listeners_.results, [&] {
    attempt.read();
    return attempt.at_end();
  });
}

std::vector<RunRecord> JobFollower::pass(const std::optional<std::vector<TaskState>>& states) {
  std::map<std::string_view, const TaskState*> state_of;
  if (states) {
    for (const TaskState& state : *states) state_of.emplace(state.job, &state);
  }
  ask_server_for_files();
  listeners_.store.sync();
  std::map<int64_t, int> newest_attempts;  // by run
  for (const RunRecord& run : listeners_.store.runs()) newest_attempts[run.id] = run.attempt;
  Store::Batch batch(listeners_.store);
  for (Job& job : jobs_) {
    add_chosen_runs(job);
    for (Part& part : job.parts) {
      std::erase_if(part.runs, [&](const Run& run) {  // somebody deleted its folder
        return !newest_attempts.contains(run.record.id);
      });
      for (Run& run : part.runs) {
        const bool has_news = newest_attempts.at(run.record.id) > run.seen_attempt;
        if (run.attempt || has_news) look(part, run);
      }
      part.is_over = part.runs.empty();
      if (!states || !job.can_be_asked || part.is_over) continue;
      const auto found = state_of.find(part.name);
      const bool is_known = found != state_of.end() && is_own(job, *found->second);
      take_state(job, part, is_known ? std::optional(*found->second) : std::nullopt);
    }
    if (std::exchange(job.is_changed, false)) listeners_.store.record_job(job.recorded);
    std::erase_if(job.parts, &Part::is_over);
  }
  std::erase_if(jobs_, [](const Job& job) { return job.parts.empty(); });
  batch.commit();
  return std::exchange(ended_, {});
}

// False if another job has the number of this one. Numbers begin anew if a cluster loses its state.
bool JobFollower::is_own(Job& job, const TaskState& state) {
  const std::filesystem::path script = listeners_.results / job.recorded.folder / kScriptName;
  if (state.script.empty() || is_script(state.script, script)) return true;
  if (!std::exchange(job.is_replaced, true)) {
    listeners_.progress.warn(fmt::format(
        "job {} is another one now ({}), because Slurm's numbers began anew: it is left alone",
        job.recorded.slurm_job, state.script));
  }
  return false;
}

// A file of a task that is over, and that is still absent after this call, was never written.
void JobFollower::ask_server_for_files() const {
  for (const Job& job : jobs_) {
    for (const Part& part : job.parts) {
      if (!part.over_since) continue;
      for (const Run& run : part.runs) {
        const int first = run.attempt ? run.attempt->attempt() : run.seen_attempt + 1;
        ask_again_for_names(paths(run), first);
      }
    }
  }
}

void JobFollower::take_state(Job& job, Part& part, const std::optional<TaskState>& state) {
  // Slurm does not show the task. Its files tell the end if the ranks and their launcher wrote it.
  const bool has_ended = state && state->state == kHiddenState && !may_choose(job, part) &&
                         std::ranges::all_of(part.runs, [&](const Run& run) {
                           return run.ended || (is_settled(run) && has_end(run));
                         });
  if (has_ended) return end(job, part, std::nullopt);
  if (!state || state->phase == TaskPhase::kEnded) {
    const bool never_began = state && state->node_list.empty();
    if (never_began || may_judge(job, part, /*is_over=*/true)) end(job, part, state);
    return;
  }
  if (state->phase == TaskPhase::kQueued) {
    wait_in_queue(job, part, *state);
  } else {
    part.over_since.reset();
    if (state->phase == TaskPhase::kRunning) part.seen_unix_ms = now_unix_ms();
  }
  for (Run& run : part.runs) {
    JobTask now = run.task;
    now.state = state->state;
    now.reason = state->reason;
    now.node_list = state->node_list;
    now.ends_unix_ms = end_of_time_limit(*state, run.task.ends_unix_ms);
    record(job, run, now);
  }
}

// True if the job may add runs by itself.
bool JobFollower::may_choose(const Job& job, const Part& part) {
  return part.name == job.recorded.slurm_job &&
         std::ranges::any_of(part.runs, [](const Run& run) { return !run.record.family.empty(); });
}

// True if the end of the run's attempt is known.
bool JobFollower::is_settled(const Run& run) const {
  if (!run.attempt) return run.ended.has_value();
  read_rest(*run.attempt);
  return reports_decide(run.attempt->reports().ranks());
}

// True if a launcher saw the end of the run's attempt.
bool JobFollower::has_end(const Run& run) const {
  return read_end(paths(run), run.attempt->attempt(), listeners_.warn()).outcome !=
         LaunchOutcome::kUnseen;
}

// True once the ends are known or the files had time to appear. A part that waits again may have
// runs that it did not begin.
bool JobFollower::may_judge(const Job& job, Part& part, bool is_over) {
  const bool are_known = std::ranges::all_of(
      part.runs, [&](const Run& run) { return is_settled(run) || (!is_over && !run.attempt); });
  if (are_known && !(is_over && may_choose(job, part))) return true;
  if (!part.over_since) part.over_since = now_();
  return now_() - *part.over_since >= kFilesLag;
}

// Called when the task first waits, and again after the job was requeued.
void JobFollower::wait_in_queue(Job& job, Part& part, const TaskState& state) {
  if (!may_judge(job, part, /*is_over=*/false)) return;
  part.over_since.reset();
  warn_if_blocked(job, state);
  for (Run& run : part.runs) {
    if (run.attempt) {
      show_end(run, judge(job, part, run, run.attempt->attempt(), run.attempt->reports().ranks(),
                          /*was_requeued=*/true, state));
    }
    if (run.is_done()) continue;  // the job continues with other runs
    run.ended.reset();
    if (!std::exchange(run.is_queued, true)) {
      listeners_.progress.queued(run.record.id, part.name);
      listeners_.store.record_status(run.record.id, RunStatus::kQueued, "");
    }
    listeners_.progress.waits_because(run.record.id, state.reason);
  }
}

// The tasks of an array share one reason at a time, so the user is told once.
void JobFollower::warn_if_blocked(Job& job, const TaskState& state) {
  const std::optional<std::string> why = why_it_will_not_start(state);
  if (!why || *why == job.blocked_because) return;
  job.blocked_because = *why;
  listeners_.progress.warn(fmt::format("job {} does not start: {}; fsdp-run cancel ends it",
                                       job.recorded.slurm_job, *why));
}

void JobFollower::end(Job& job, Part& part, const std::optional<TaskState>& state) {
  int64_t last_end = 0;  // of an attempt with a verdict, unless others were cut off later
  for (const Run& run : part.runs) {
    for (const AttemptRecord& attempt : attempts_of(part, run)) {
      last_end = std::max(last_end, attempt.ended_unix_ms.value_or(INT64_MAX));
    }
  }
  for (Run& run : part.runs) {
    const int64_t id = run.record.id;
    std::optional<TaskState> of_run = state;
    if (!state && listeners_.store.run(id)->status == RunStatus::kCancelled) {  // fsdp-run cancel
      of_run = {.job = {}, .phase = TaskPhase::kEnded, .state = "CANCELLED"};
    }
    const std::optional<Verdict> judged = judge_attempts(job, part, run, of_run, last_end);
    const std::vector<JobRecord> jobs = listeners_.store.jobs_of_run(id);
    const bool is_passed_on = !jobs.empty() && jobs.back().id != job.recorded.id;
    if (!is_passed_on) {
      show_end(run, judged ? *judged : end_without_attempt(job, part, run, of_run));
      run.record.spec = listeners_.store.spec(id);  // it may be restarted
      ended_.emplace_back(run.record).status = *run.ended;
    }
    JobTask now = run.task;
    now.over = true;
    now.ends_unix_ms.reset();
    if (of_run) {
      now.state = of_run->state;
      now.reason = of_run->reason;
      if (!of_run->node_list.empty()) now.node_list = of_run->node_list;
    }
    record(job, run, now);
  }
  part.is_over = true;
}

// Judges the run's attempts without a verdict, and the one that ended last, because Slurm may know
// more. Late reports may bring a result, too: on a failed node, ranks may go on for a while.
// Returns the result, or the newest end; nullopt if the job's last start began no attempt.
std::optional<Verdict> JobFollower::judge_attempts(const Job& job, const Part& part, Run& run,
                                                   const std::optional<TaskState>& state,
                                                   int64_t last_end) const {
  std::optional<Verdict> verdict;
  const std::vector<AttemptRecord> attempts = attempts_of(part, run);
  for (const AttemptRecord& attempt : attempts) {
    Verdict found = verdict_of(attempt);
    const int number = attempt.attempt;
    const bool is_open = !attempt.ended_unix_ms;
    const bool is_last = number == attempts.back().attempt && !run.is_queued &&
                         (is_open || attempt.ended_unix_ms == last_end);
    bool is_told = found.is_result() || !run.is_queued;
    if (!found.is_result()) {
      listeners_.store.read_late_events(run.record.id, number);
      run.record.spec = listeners_.store.spec(run.record.id);
      const AttemptReports reports =
          read_reports(listeners_.results, run.record, number, listeners_.warn());
      if (is_open || is_last || judge_by_ranks(reports.ranks()).is_result()) {
        found = judge(job, part, run, number, reports.ranks(), !is_last,
                      is_last ? state : std::nullopt);
        is_told = true;
      }
    }
    if (is_told && !(verdict && verdict->is_result())) verdict = found;
  }
  return verdict;
}

Verdict JobFollower::judge(const Job& job, const Part& part, const Run& run, int attempt,
                           std::span<const RankState> ranks, bool was_requeued,
                           const std::optional<TaskState>& state) const {
  const RunPaths paths = this->paths(run);
  AttemptEnd end = read_end(paths, attempt, listeners_.warn());
  end.in_job = true;
  end.was_requeued |= was_requeued;
  end.task = state;
  if (end.outcome == LaunchOutcome::kUnseen) {
    end.ended_unix_ms = std::max(part.seen_unix_ms, last_write_unix_ms(paths.attempt(attempt)));
    const auto output = job_output(listeners_.results / job.recorded.folder, part.name);
    // If the job's steps run out of memory, Slurm can kill the batch script, too. Then only the
    // job's output says so. An output file that the user names may have lines of other jobs.
    const SlurmSpec& slurm = run.record.spec.slurm;
    const bool is_own_file = slurm.output.empty() && slurm.error.empty();
    if (state && is_own_file && !first_line(output, says_out_of_memory).empty()) {
      end.outcome = LaunchOutcome::kOutOfMemory;
      end.reason = kSlurmLimitReached;
    }
  }
  return close_attempt(listeners_.store, listeners_.results, run.record, attempt, ranks, end);
}

Verdict JobFollower::end_without_attempt(const Job& job, const Part& part, const Run& run,
                                         const std::optional<TaskState>& state) const {
  const auto output = job_output(listeners_.results / job.recorded.folder, part.name);
  const std::string message = last_message(output);
  Verdict verdict =
      judge_without_attempt(state, output_text(output) + (message.empty() ? "" : ": " + message));
  // The job's last start began no attempt if it may not go on.
  if (const auto attempts = attempts_of(part, run); !attempts.empty()) {
    const AttemptRecord& last = attempts.back();
    const auto starts = read_end(paths(run), last.attempt, listeners_.warn()).starts_in_a_row;
    if (starts) verdict = {last.status, last.reason + restarts_ran_out(*starts)};
  }
  listeners_.store.record_status(run.record.id, verdict.status, verdict.reason);
  return verdict;
}

// Takes the task over to the job's record, which pass() writes.
void JobFollower::record(Job& job, Run& run, const JobTask& task) {
  if (task == run.task) return;
  run.task = task;
  *std::ranges::find(job.recorded.tasks, task.task, &JobTask::task) = task;
  job.is_changed = true;
}

}  // namespace fsdp
