#include "runner/cluster/job_follower.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <utility>

#include "base/system/unix_time.h"
#include "contract/record/host_memory.h"
#include "contract/record/run_paths.h"
#include "contract/spec/run_spec_yaml.h"
#include "runner/cluster/answers.h"
#include "runner/cluster/complaints.h"
#include "runner/cluster/job_plan.h"
#include "runner/cluster/job_submission.h"
#include "runner/cluster/script.h"
#include "runner/cluster/slurm.h"
#include "runner/run/attempt.h"
#include "runner/run/earlier_attempts.h"

namespace fsdp {
namespace {

// The longest delay from Slurm's report of a job's end to the appearance of the job's files. An NFS
// client remembers absent names for longer. ask_again_for_names() handles that without a wait.
constexpr std::chrono::seconds kFilesLag{6};
// Slurm counts in seconds and queries take time, so ends that differ by less are the same.
constexpr int64_t kSameEndMs = 30'000;
// A file gets the time of the kernel's last tick. It can seem older than it is by so much.
constexpr int64_t kFileTimeLagMs = 10;

std::optional<int64_t> end_of_time_limit(const TaskState& state, std::optional<int64_t> known) {
  if (!state.seconds_left) return std::nullopt;
  const int64_t ends = now_unix_ms() + *state.seconds_left * 1000;
  return known && std::abs(ends - *known) < kSameEndMs ? *known : ends;
}

// Returns the time of the last write to the file, by the file server's clock; 0: unknown.
int64_t write_unix_ms(const std::filesystem::path& file) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return 0;
  return status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000;
}

// Returns the time of the last write to a file of the folder; 0: unknown.
int64_t last_write_unix_ms(const std::filesystem::path& folder) {
  int64_t last = 0;
  std::error_code gone;
  for (const auto& file : std::filesystem::directory_iterator(folder, gone)) {
    last = std::max(last, write_unix_ms(file.path()));
  }
  return last;
}

}  // namespace

JobFollower::JobFollower(const RunListeners& listeners, std::function<TimePoint()> now)
    : listeners_(listeners), now_(std::move(now)) {}

RunPaths JobFollower::paths(const Task& task) const {
  return RunPaths(listeners_.results / task.run.folder);
}

void JobFollower::follow(JobRecord recorded, std::span<const RunRecord> runs, bool can_be_asked,
                         bool have_specs) {
  std::map<int64_t, const RunRecord*> run_of;
  for (const RunRecord& run : runs) run_of.emplace(run.id, &run);
  const uid_t user = submitter_of(listeners_.results / recorded.folder);
  Job& job = jobs_.emplace_back(Job{std::move(recorded), user, can_be_asked});
  for (const JobTask& task : job.recorded.tasks) {
    const auto run = run_of.find(task.run);
    if (task.over || run == run_of.end()) continue;
    job.tasks.push_back(open_task(job, task, *run->second, have_specs));
  }
}

void JobFollower::forget() {
  jobs_.clear();
  ended_.clear();
}

void JobFollower::add_chosen_runs(Job& job) {
  for (RunRecord& chosen :
       chosen_runs(listeners_.results, job.recorded, job.chosen, listeners_.warn())) {
    ++job.chosen;
    auto run = listeners_.store.recorded_run(job.recorded.experiment, chosen.point, chosen.hash);
    if (run &&
        std::ranges::find(job.recorded.tasks, run->id, &JobTask::run) != job.recorded.tasks.end())
      continue;
    if (!run) run = listeners_.store.plan_one_more(job.recorded.experiment, chosen);
    run->spec = std::move(chosen.spec);
    const JobTask task = task_of(*run, std::ssize(job.recorded.tasks));
    keep(job, task);
    job.tasks.push_back(open_task(job, task, std::move(*run), /*has_spec=*/true));
  }
}

// Continues an attempt of this job that an earlier runner has imported. A run that has ended in an
// allocation may be in another job by now.
JobFollower::Task JobFollower::open_task(const Job& job, const JobTask& recorded, RunRecord run,
                                         bool has_spec) {
  Task task{.recorded = recorded,
            .run = std::move(run),
            .not_begun_unix_ms = job.recorded.submitted_unix_ms,
            .has_spec = has_spec};
  task.seen_attempt = task.run.attempt;
  const RunRecord& record = task.run;
  if (has_spec) {
    expect(listeners_.progress, task.run);
  } else {
    listeners_.progress.expect(record.id, {.point = record.point});
  }
  const std::string name = slurm_name(job.recorded, task.recorded.task);
  listeners_.progress.queued(record.id, name);
  task.is_queued = record.status == RunStatus::kQueued || record.status == RunStatus::kCancelled;
  const std::vector<AttemptRecord> attempts = listeners_.store.attempts(record.id);
  const auto own = std::find_if(attempts.rbegin(), attempts.rend(),
                                [&](const auto& attempt) { return attempt.slurm_job == name; });
  if (name.empty() || own == attempts.rend()) return task;
  for (const AttemptRecord& attempt : attempts) {
    if (attempt.slurm_job != name || attempt.status != RunStatus::kRunning) continue;
    if (task.attempt) close(job, task, /*was_requeued=*/true, std::nullopt);
    open(task, attempt);
    show_start(listeners_.progress, task.run);
  }
  if (task.attempt) return task;
  if (job.is_allocation() && !(task.is_queued && was_ended_by_cluster(own->status))) {
    task.ended = own->status;
  }
  return task;
}

TasksByUser JobFollower::tasks() const {
  TasksByUser names;
  for (const Job& job : jobs_) {
    if (!job.can_be_asked) continue;
    for (const Task& task : job.tasks) {
      names[job.user].push_back(slurm_name(job.recorded, task.recorded.task));
      if (job.is_allocation()) break;
    }
  }
  return names;
}

bool JobFollower::follows(int64_t run) const {
  return std::ranges::any_of(jobs_, [&](const Job& job) {
    return std::ranges::any_of(
        job.tasks, [&](const Task& task) { return task.run.id == run && !task.is_done(); });
  });
}

bool JobFollower::waits_for_files() const {
  return std::ranges::any_of(jobs_, [](const Job& job) {
    return std::ranges::any_of(job.tasks,
                               [](const Task& task) { return task.over_since.has_value(); });
  });
}

bool JobFollower::read_events() {
  bool some_ended = false;
  for (const Job& job : jobs_) {
    for (const Task& task : job.tasks) {
      if (!task.attempt) continue;
      const bool had_ended = reports_decide(task.attempt->reports().ranks());
      read(task);
      some_ended |= !had_ended && reports_decide(task.attempt->reports().ranks());
    }
  }
  record_news();
  return some_ended;
}

void JobFollower::read_spec(Task& task) const {
  if (!task.has_spec) task.run.spec = read_run_spec(paths(task).spec());
  task.has_spec = true;
}

void JobFollower::open(Task& task, const AttemptRecord& attempt) {
  read_spec(task);
  // An attempt that a requeue cut short may be found only when the task waits again or has begun
  // the next one.
  const bool was_seen_waiting =
      write_unix_ms(paths(task).launch_record(attempt.attempt)) + kFileTimeLagMs >=
      task.not_begun_unix_ms;
  task.attempt = std::make_unique<OpenAttempt>(
      listeners_.progress, listeners_.results, task.run, attempt.attempt,
      was_seen_waiting ? std::max(attempt.started_unix_ms, task.not_begun_unix_ms)
                       : attempt.started_unix_ms);
}

void JobFollower::read(const Task& task) {
  const std::vector<std::vector<Event>> events = task.attempt->read();
  if (!std::ranges::all_of(events, &std::vector<Event>::empty)) news_.insert(task.run.folder);
}

void JobFollower::read_rest(const Task& task) {
  read_to_end(listeners_.results, [&] {
    read(task);
    return task.attempt->at_end();
  });
}

void JobFollower::record_news() { listeners_.store.sync(std::exchange(news_, {})); }

std::vector<RunRecord> JobFollower::pass(const std::optional<std::vector<TaskState>>& states) {
  std::map<std::string_view, const TaskState*> state_of;
  if (states) {
    for (const TaskState& state : *states) state_of.emplace(state.job, &state);
  }
  record_news();
  Store::Batch batch(listeners_.store);
  for (Job& job : jobs_) {
    if (job.is_allocation()) add_chosen_runs(job);
    for (Task& task : job.tasks) {
      const auto found = state_of.find(slurm_name(job.recorded, task.recorded.task));
      const bool is_known = found != state_of.end() && is_own(job, *found->second);
      if (task.over_since) ask_server_for_files(task);
      if (!is_known || found->second->phase != TaskPhase::kQueued) read_files(job, task);
      // A task of an allocation is closed one pass after its run ended. By then the run that the
      // job chose next is known.
      const bool ended_now = job.is_allocation() && end_in_allocation(job, task);
      if (states && job.can_be_asked && !task.recorded.over && !ended_now) {
        take_state(job, task, is_known ? std::optional(*found->second) : std::nullopt);
      }
    }
    if (std::exchange(job.is_changed, false)) listeners_.store.record_job(job.recorded);
    std::erase_if(job.tasks, [](const Task& task) { return task.recorded.over; });
    if (job.tasks.empty()) std::ranges::move(job.ended, std::back_inserter(ended_));
  }
  std::erase_if(jobs_, [](const Job& job) { return job.tasks.empty(); });
  record_news();
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

// A file that is still absent after this call was never written.
void JobFollower::ask_server_for_files(const Task& task) const {
  const int first = task.attempt ? task.attempt->attempt() : task.run.attempt + 1;
  ask_again_for_names(paths(task), first);
}

// Returns the attempts that the job has begun since the last call.
std::vector<AttemptRecord> JobFollower::new_attempts(const Job& job, Task& task) const {
  if (!std::filesystem::exists(paths(task).attempt(task.seen_attempt + 1))) return {};
  listeners_.store.sync({task.run.folder});
  const std::string name = slurm_name(job.recorded, task.recorded.task);
  std::vector<AttemptRecord> attempts = listeners_.store.attempts(task.run.id);
  std::erase_if(attempts, [&](const AttemptRecord& each) {
    return each.attempt <= task.seen_attempt || each.slurm_job != name;
  });
  if (!attempts.empty()) task.seen_attempt = attempts.back().attempt;
  return attempts;
}

void JobFollower::read_files(const Job& job, Task& task) {
  for (const AttemptRecord& attempt : new_attempts(job, task)) {
    if (task.attempt) close(job, task, /*was_requeued=*/true, std::nullopt);
    open(task, attempt);
    task.is_queued = false;
    task.ended.reset();
    task.over_since.reset();
    show_start(listeners_.progress, task.run);
  }
  if (task.attempt) read(task);
}

void JobFollower::take_state(Job& job, Task& task, const std::optional<TaskState>& state) {
  // Slurm does not show the task. Its files tell the end if the ranks and their launcher wrote it.
  const bool is_hidden = state && state->state == kHiddenState && !job.is_allocation();
  if (is_hidden && task.attempt && may_judge(task) && has_end(task)) {
    end_task(job, task, std::nullopt);
    return;
  }
  if (!state || state->phase == TaskPhase::kEnded) {
    // The file of the run that the job chose last may not have appeared.
    const bool may_go_on = job.is_allocation() && !task.run.family.empty();
    const bool is_known = task.ended && !may_go_on;
    if (is_known || (state && state->node_list.empty()) || may_judge(task)) {
      end_task(job, task, state);
    }
    return;
  }
  if (state->phase == TaskPhase::kRunning) task.seen_unix_ms = now_unix_ms();
  if (state->phase == TaskPhase::kQueued) {
    wait_in_queue(job, task, *state);
  } else if (!job.is_allocation()) {  // in allocations, end.json may come before the last events
    task.over_since.reset();
  }
  record(job, task, *state);
}

// True if the ranks finished, or reported another end, and their launcher wrote it down.
bool JobFollower::has_end(const Task& task) const {
  return reports_decide(task.attempt->reports().ranks()) &&
         read_end(paths(task), task.attempt->attempt(), listeners_.warn()).outcome !=
             LaunchOutcome::kUnseen;
}

// True once the ranks' ends are known or the files had time to appear.
bool JobFollower::may_judge(Task& task) {
  if (task.attempt) {
    read_rest(task);
    if (reports_decide(task.attempt->reports().ranks())) return true;
  }
  if (!task.over_since) task.over_since = now_();
  return now_() - *task.over_since >= kFilesLag;
}

// Called when the task first waits, and again after the job was requeued.
void JobFollower::wait_in_queue(Job& job, Task& task, const TaskState& state) {
  if (task.is_done()) return;  // the job continues with other runs
  task.not_begun_unix_ms = now_unix_ms();
  if (task.attempt) {
    if (!may_judge(task)) return;
    close(job, task, /*was_requeued=*/true, state);
    listeners_.progress.queued(task.run.id, slurm_name(job.recorded, task.recorded.task));
  }
  task.over_since.reset();
  task.ended.reset();
  warn_if_blocked(job, state);
  listeners_.progress.waits_because(task.run.id, state.reason);
  if (std::exchange(task.is_queued, true)) return;
  listeners_.store.record_status(task.run.id, RunStatus::kQueued, "");
}

// The tasks of an array share one reason at a time, so the user is told once.
void JobFollower::warn_if_blocked(Job& job, const TaskState& state) {
  const std::optional<std::string> why = why_it_will_not_start(state);
  if (!why || *why == job.blocked_because) return;
  job.blocked_because = *why;
  listeners_.progress.warn(fmt::format("job {} does not start: {}; fsdp-run cancel ends it",
                                       job.recorded.slurm_job, *why));
}

// An allocation continues with other runs after one has ended. A run that was told to stop ended
// with the job, and the job's state says why. After a time limit, a run may continue in the job.
bool JobFollower::end_in_allocation(Job& job, Task& task) {
  if (!task.attempt) return false;
  const LaunchOutcome outcome =
      read_end(paths(task), task.attempt->attempt(), listeners_.warn()).outcome;
  if (outcome == LaunchOutcome::kUnseen || outcome == LaunchOutcome::kInterrupted) return false;
  if (!may_judge(task)) return false;
  task.over_since.reset();
  task.ended = close(job, task, /*was_requeued=*/false, std::nullopt);
  return task.is_done();
}

// Records what ranks wrote after their attempts were closed. On a node that failed, ranks may write
// while the run's next attempt goes on. Returns the last end that a late result changed.
std::optional<Verdict> JobFollower::read_late_events(const Job& job, Task& task) const {
  Store& store = listeners_.store;
  std::optional<Verdict> changed;
  const std::string name = slurm_name(job.recorded, task.recorded.task);
  for (const AttemptRecord& closed : store.attempts(task.run.id)) {
    if (closed.slurm_job != name || closed.status == RunStatus::kRunning) continue;
    read_spec(task);
    if (!store.read_late_events(task.run.id, closed.attempt)) continue;
    const AttemptReports reports =
        read_reports(listeners_.results, task.run, closed.attempt, listeners_.warn());
    if (judge_by_ranks(reports.ranks()).is_result() && is_cut_short(closed.status)) {
      changed = close_attempt(store, listeners_.results, task.run, closed.attempt, reports.ranks(),
                              AttemptEnd());
    } else {
      store.end_attempt(task.run.id, closed.attempt, closed.status, closed.reason,
                        last_event_unix_ms(reports.ranks()).value_or(0),
                        static_cast<int>(closed.reason_rank.value_or(-1)));
    }
  }
  return changed;
}

void JobFollower::end_task(Job& job, Task& task, std::optional<TaskState> state) {
  const std::optional<Verdict> late = read_late_events(job, task);
  const auto run = listeners_.store.run(task.run.id);
  const bool was_cancelled = run && run->status == RunStatus::kCancelled;  // by fsdp-run cancel
  if (!state && was_cancelled)
    state = TaskState{.job = {}, .phase = TaskPhase::kEnded, .state = "CANCELLED"};
  if (task.attempt) task.ended = close(job, task, /*was_requeued=*/false, state);
  if (late && is_cut_short(task.ended.value_or(RunStatus::kUnknown))) {
    task.ended = late->status;
    listeners_.progress.ended(task.run.id, late->status, late->reason, {});
  }
  if (!task.ended) task.ended = end_without_attempt(job, task, state);
  if (was_ended_by_cluster(*task.ended)) read_spec(task);  // it may be restarted
  // Another job may have begun the run anew.
  const bool is_news = !task.is_done() || !job.is_allocation() ||
                       (run && listeners_.store.run(task.run.id)->status == *task.ended);
  if (is_news) {
    (job.is_allocation() ? job.ended : ended_).emplace_back(task.run).status = *task.ended;
  }
  task.recorded.over = true;
  task.recorded.ends_unix_ms.reset();
  if (state) {
    task.recorded.state = state->state;
    task.recorded.reason = state->reason;
    if (!state->node_list.empty()) task.recorded.node_list = state->node_list;
  }
  keep(job, task.recorded);
}

RunStatus JobFollower::end_without_attempt(const Job& job, const Task& task,
                                           const std::optional<TaskState>& state) {
  const int64_t run = task.run.id;
  const std::string name = slurm_name(job.recorded, task.recorded.task);
  const auto output = job_output(listeners_.results / job.recorded.folder, name);
  const std::string message = last_message(output);
  Verdict verdict =
      judge_without_attempt(state, output_text(output) + (message.empty() ? "" : ": " + message));
  const std::vector<AttemptRecord> attempts = listeners_.store.attempts(run);
  if (!attempts.empty() && attempts.back().slurm_job == name) {
    // The job's last start began no attempt, because it found a result or may not go on.
    const AttemptRecord& last = attempts.back();
    const auto starts = read_end(paths(task), last.attempt, listeners_.warn()).starts_in_a_row;
    if (is_result(last.status)) verdict = {last.status, last.reason};
    if (starts) verdict = {last.status, last.reason + restarts_ran_out(*starts)};
  }
  listeners_.store.record_status(run, verdict.status, verdict.reason);
  listeners_.progress.ended(run, verdict.status, verdict.reason, {});
  return verdict.status;
}

RunStatus JobFollower::close(const Job& job, Task& task, bool was_requeued,
                             const std::optional<TaskState>& state) {
  OpenAttempt& open = *task.attempt;
  read_rest(task);
  record_news();
  AttemptEnd end = read_end(paths(task), open.attempt(), listeners_.warn());
  end.in_job = true;
  end.was_requeued |= was_requeued;
  if (end.outcome == LaunchOutcome::kUnseen) {
    end.ended_unix_ms =
        std::max(task.seen_unix_ms, last_write_unix_ms(paths(task).attempt(open.attempt())));
    const auto output = job_output(listeners_.results / job.recorded.folder,
                                   slurm_name(job.recorded, task.recorded.task));
    // If the job's steps run out of memory, Slurm can kill the batch script, too. Then only the
    // job's output says so. An output file that the user names may have lines of other jobs.
    const bool is_own_file =
        task.run.spec.slurm.output.empty() && task.run.spec.slurm.error.empty();
    if (state && is_own_file && !first_line(output, says_out_of_memory).empty()) {
      end.outcome = LaunchOutcome::kOutOfMemory;
      end.reason = kSlurmLimitReached;
    }
  }
  end.task = state;
  const Verdict verdict = close_attempt(listeners_.store, listeners_.results, task.run,
                                        open.attempt(), open.reports().ranks(), end);
  open.show_end(verdict);
  task.attempt.reset();
  return verdict.status;
}

void JobFollower::record(Job& job, Task& task, const TaskState& state) {
  JobTask now = task.recorded;
  now.state = state.state;
  now.reason = state.reason;
  now.node_list = state.node_list;
  now.ends_unix_ms = end_of_time_limit(state, task.recorded.ends_unix_ms);
  if (now == task.recorded) return;
  task.recorded = now;
  keep(job, now);
}

void JobFollower::keep(Job& job, const JobTask& task) {
  std::vector<JobTask>& tasks = job.recorded.tasks;
  const auto known = std::ranges::find(tasks, task.task, &JobTask::task);
  known == tasks.end() ? tasks.push_back(task) : void(*known = task);
  job.is_changed = true;
}

}  // namespace fsdp
