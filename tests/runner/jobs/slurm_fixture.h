#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/system/unix_time.h"
#include "contract/record/run_paths.h"
#include "runner/cluster/job_loop.h"
#include "runner/cluster/job_submission.h"
#include "runner/cluster/open_jobs.h"
#include "runner/cluster/queue.h"
#include "runner/progress/progress.h"
#include "runner/run/attempt_files.h"
#include "tests/runner/store/store_fixture.h"

// A cluster that the test controls, and the files that its jobs would write.
namespace fsdp {

using Statuses = std::vector<RunStatus>;

class FakeCluster : public Queue {
 public:
  QueueLimits limits() override {
    answer();
    return configuration;
  }
  std::string submit(const std::filesystem::path& script) override {
    ++submissions;
    answer();
    if (fails_to_submit) throw QueueUnavailable("sbatch: Socket timed out");
    const std::string text = read(script);
    if (!refused_script.empty() && text.find(refused_script) != std::string::npos) {
      throw QueueRefused("sbatch: error: invalid partition specified", false);
    }
    const bool is_array = text.find("--array=") != std::string::npos;
    const int tasks = is_array ? tasks_in(text) : 1;
    if (waiting_tasks() + tasks > most_waiting)
      throw QueueRefused("QOSMaxSubmitJobPerUserLimit", true);
    const std::string id = std::to_string(next_id_++);
    scripts[script] = id;
    for (int task = 0; task < tasks; ++task) {
      const std::string name = is_array ? id + '_' + std::to_string(task) : id;
      known[name] = {.job = name, .state = "PENDING", .reason = "Priority", .node_list = ""};
    }
    if (loses_answers) throw QueueUnavailable("sbatch did not answer within 30 s");
    return id;
  }
  std::optional<std::string> find_submission(const std::filesystem::path& script, uid_t) override {
    answer();
    const auto found = scripts.find(script);
    return found == scripts.end() ? std::nullopt : std::optional(found->second);
  }
  using Queue::query;
  std::vector<TaskState> query(std::span<const std::string> jobs, uid_t) override {
    ++queries;
    answer();
    std::vector<TaskState> states;
    for (const auto& [name, state] : known) {
      if (std::ranges::find(jobs, name) != jobs.end()) states.push_back(state);
    }
    return states;
  }
  std::map<std::string, std::string> cancel(std::span<const std::string> names) override {
    answer();
    for (const std::string& name : names) cancelled.insert(name);
    return {};
  }
  void requeue(const std::string&) override {}
  std::optional<std::string> refusal(const std::filesystem::path&) override { return {}; }
  std::vector<Partition> partitions() override { return {}; }
  MemoryLimits memory() override { return {}; }
  std::optional<TaskAccounts> accounts(const std::string&) override { return {}; }

  void becomes(const std::string& task, TaskPhase phase, const std::string& state,
               const std::string& nodes = "n1") {
    known[task] = {.job = task, .phase = phase, .state = state, .reason = "", .node_list = nodes};
  }
  void runs(const std::string& task) { becomes(task, TaskPhase::kRunning, "RUNNING"); }
  void ends(const std::string& task, const std::string& state = "COMPLETED") {
    becomes(task, TaskPhase::kEnded, state);
  }
  void forgets_all() {
    scripts.clear();
    known.clear();
  }
  void begins_numbers_anew() {
    forgets_all();
    next_id_ = 100;
  }
  void waits_again(const std::string& task) { becomes(task, TaskPhase::kQueued, "PENDING", ""); }

  bool is_down = false;
  bool loses_answers = false;
  bool fails_to_submit = false;
  std::string refused_script;  // scripts with this text are refused
  int most_waiting = 1'000'000;
  int submissions = 0;
  int queries = 0;
  std::map<std::string, TaskState> known;                  // by task
  std::map<std::filesystem::path, std::string> scripts{};  // job by script
  std::set<std::string> cancelled;
  QueueLimits configuration{.cluster = "here"};

 private:
  void answer() const {
    if (is_down) throw QueueUnavailable("slurmctld does not answer");
  }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream stream(file);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  static int tasks_in(const std::string& script) {
    return std::stoi(script.substr(script.find("--array=0-") + 10)) + 1;
  }
  int waiting_tasks() const {
    return static_cast<int>(std::ranges::count_if(
        known, [](const auto& each) { return each.second.phase != TaskPhase::kEnded; }));
  }

  int next_id_ = 100;
};

// Returns runs of one rank that ask for the same resources.
inline std::vector<RunRecord> runs_of_one_shape(int count, int64_t checkpoint_steps = 0) {
  std::vector<RunRecord> runs;
  for (int i = 0; i < count; ++i) {
    RunRecord run = planned_run("run" + std::to_string(i), 1, std::to_string(i));
    if (checkpoint_steps > 0) run.spec.checkpoint.every_steps = checkpoint_steps;
    runs.push_back(std::move(run));
  }
  return in_order(std::move(runs));
}

inline std::vector<RunRecord> two_runs(SlurmMode mode) {
  auto planned = in_order({planned_run("first", 1, "1"), planned_run("second", 1, "2")});
  for (auto& run : planned) run.spec.slurm.mode = mode;
  return planned;
}

// Writes the files of one run's ranks and of the loop in its job.
class FakeJob {
 public:
  static constexpr int kSteps = 20;

  FakeJob(const std::filesystem::path& results, const RunRecord& run, int64_t ranks = 1)
      : paths_(results / run.folder), ranks_(ranks) {}

  int64_t clock_ms = 0;  // how far the node's clock is ahead of this host's

  // Starts an attempt as the batch script of job `job` does.
  void starts(int attempt, const std::string& job) {
    if (job == job_) judges(/*was_requeued=*/true);
    job_ = job;
    std::filesystem::create_directories(paths_.attempt(attempt));
    write(paths_.launch_record(attempt), R"({"job": ")" + job +
                                             R"(", "node_list": "n1", "host": "n1", )"
                                             R"("started_unix_ms": )" +
                                             std::to_string(time_unix_ms()) + "}");
    attempt_ = attempt;
    sequences_.assign(static_cast<size_t>(ranks_), 0);
    RunStarted started;
    started.steps_planned = kSteps;
    started.resumed_from_step = last_step_;
    for (int rank = 0; rank < ranks_; ++rank) report(rank, started);
  }
  // Reports all steps after the last one, up to `last`.
  void steps(int64_t last) {
    for (; last_step_ < last; ++last_step_) {
      for (int rank = 0; rank < ranks_; ++rank) report(rank, step_done(last_step_ + 1, 10));
    }
  }
  void saves() {
    report(0, CheckpointDone{.step = last_step_,
                             .path = "checkpoints/step-" + std::to_string(last_step_)});
  }
  // The ranks finish. Their job's loop may have been killed.
  void ranks_finish() {
    steps(kSteps);
    for (int rank = 0; rank < ranks_; ++rank) report(rank, RunFinished{.steps = kSteps});
  }
  void finishes() {
    ranks_finish();
    says("exited");
  }
  void runs_out_of_memory() {
    report(0, RunFailed{.exit_code = 3, .reason = "out of memory"});
    says("failed");
  }
  void fails() {
    for (int rank = 0; rank < ranks_; ++rank)
      report(rank, RunFailed{.exit_code = 1, .reason = "bad data"});
    says("failed");
  }
  void is_asked_to_stop(const std::string& outcome) {
    for (int rank = 0; rank < ranks_; ++rank) report(rank, RunInterrupted{});
    says(outcome);
  }
  // The loop sees the end. `more` are further fields of end.json.
  void says(const std::string& outcome, const std::string& more = "") {
    write(paths_.end_record(attempt_),
          R"({"ended_unix_ms": )" + std::to_string(time_unix_ms()) + R"(, "outcome": ")" + outcome +
              R"(", "reason": "", "first_rank": -1, "inputs_compared": false)" + more + "}");
    if (outcome != "interrupted" && outcome != "unseen") judges(/*was_requeued=*/false);
  }
  // Writes the end.json of a job that finds slurm.max_restarts reached.
  void gives_up(const std::string& outcome, int64_t starts) {
    says(outcome, R"(, "starts_in_a_row": )" + std::to_string(starts));
  }

 private:
  // Writes the verdict.
  void judges(bool was_requeued) const {
    const auto ignore = [](const std::string&) {};
    EventTail tail(paths_, attempt_, static_cast<int>(ranks_), ignore);
    AttemptReports reports({.ranks = ranks_});
    do {
      reports.add(tail.poll());
    } while (!tail.at_end());
    AttemptEnd end = read_end(paths_, attempt_, ignore);
    end.in_job = true;
    end.was_requeued = was_requeued;
    if (end.ended_unix_ms == 0) end.ended_unix_ms = time_unix_ms();
    write_verdict(paths_, attempt_, fsdp::judge(reports.ranks(), end));
  }
  int64_t time_unix_ms() const { return now_unix_ms() + clock_ms; }
  static void write(const std::filesystem::path& file, const std::string& text) {
    std::ofstream(file) << text << '\n';
  }
  template <typename Body>
  void report(int rank, Body body) {
    std::ofstream(paths_.events(attempt_, rank), std::ios::app)
        << to_json_line(
               event(sequences_[static_cast<size_t>(rank)]++, time_unix_ms(), std::move(body)))
        << '\n';
  }

  RunPaths paths_;
  int64_t ranks_;
  std::string job_{};
  int attempt_ = 0;
  std::vector<int64_t> sequences_{};  // by rank: the sequence of its next event
  int64_t last_step_ = 0;
};

struct SlurmLaboratory {
  ResultsFolder results;
  FakeCluster cluster;

  FakeJob job(const RunRecord& run) const { return {results.path(), run}; }
  std::vector<FakeJob> jobs_of(const std::vector<RunRecord>& runs) const {
    std::vector<FakeJob> jobs;
    for (const RunRecord& run : runs) jobs.push_back(job(run));
    return jobs;
  }
  // Slurm starts the task, and its ranks begin an attempt.
  void begins(FakeJob& job, const std::string& task, int attempt = 1) {
    cluster.runs(task);
    job.starts(attempt, task);
  }
  // The ranks finish, and then the task ends.
  void finishes(FakeJob& job, const std::string& task) {
    job.finishes();
    cluster.ends(task);
  }
  void begins_and_finishes(FakeJob& job, const std::string& task) {
    begins(job, task);
    finishes(job, task);
  }
  // The folder of the only open job.
  std::filesystem::path submission(const Store& store) const {
    return results.path() / store.open_jobs("").at(0).folder;
  }
};

// Keeps all messages.
class RecordingProgress : public Progress {
 public:
  void say(std::string_view line) override { lines.emplace_back(line); }
  void warn(std::string_view line) override { lines.emplace_back(line); }

  int64_t count(std::string_view part) const {
    return std::ranges::count_if(
        lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

  std::vector<std::string> lines;

 private:
  void show(const RunProgress& run) override {
    if (run.status == RunStatus::kRunning) say(run.point + ": started");
    if (run.status == RunStatus::kQueued) say(run.point + ": queued " + run.job);
    if (run.has_ended()) say(end_line(run));
  }
  void update(ProgressClock::time_point) override {}
};

// One runner on a results folder. Whenever it waits, it calls the next of `happens`.
class SlurmRunnerLife {
 public:
  SlurmRunnerLife(const ResultsFolder& results, FakeCluster& cluster)
      : store(results.path()),
        submission_({store, progress, results.path()}, cluster, settings(results)),
        sweep({store, progress, results.path()}, cluster, submission_,
              {.experiment = "lab",
               .follow_up =
                   [this](const RunRecord& run, RunStatus status) {
                     return follow_up ? follow_up(run, status) : std::nullopt;
                   }},
              {.now = [this] { return now_; },
               .wait = [this](std::chrono::milliseconds time) { return wait(time); }}) {
    store.sync();
  }

  // Plans the runs as the experiment "lab".
  std::vector<RunRecord> plan(const std::vector<RunRecord>& planned) {
    return store.plan(experiment("lab"), planned);
  }
  RunStatus status(int64_t run) const {
    const std::vector<RunRecord> runs = store.runs();
    return std::ranges::find(runs, run, &RunRecord::id)->status;
  }
  Statuses attempts(int64_t run) const {
    Statuses statuses;
    for (const AttemptRecord& attempt : store.attempts(run)) statuses.push_back(attempt.status);
    return statuses;
  }

  Store store;
  RecordingProgress progress;
  std::deque<std::function<void()>> happens;
  std::function<std::optional<RunRecord>(const RunRecord&, RunStatus)> follow_up;
  bool is_asked_to_stop = false;

 private:
  static JobSubmission::Settings settings(const ResultsFolder& results) {
    JobSubmission::Settings settings{.experiment = "lab"};
    settings.runner = "/opt/fsdp-run";
    settings.plan.file = "/home/lab.yaml";
    settings.plan.working_directory = "/home";
    settings.plan.results = results.path();
    settings.plan.trainer = "/opt/fsdp-train";
    return settings;
  }
  bool wait(std::chrono::milliseconds time) {
    now_ += std::max<std::chrono::milliseconds>(time, std::chrono::seconds(4));
    if (!happens.empty()) {
      happens.front()();
      happens.pop_front();
    } else if (++idle_waits_ > 200) {
      FAIL("the runner waits for nothing");
    }
    return is_asked_to_stop;
  }

  std::chrono::steady_clock::time_point now_{};
  int idle_waits_ = 0;
  JobSubmission submission_;

 public:
  JobLoop sweep;
};

// Reads open jobs as a report does, by a clock that only waits move. Returns the experiments whose
// jobs Slurm could not be asked about.
inline std::set<std::string> refresh(Store& store, const ResultsFolder& results, Queue* queue) {
  std::chrono::steady_clock::time_point now{};
  const auto wait = [&](std::chrono::milliseconds time) {
    now += time;
    return false;
  };
  return refresh_free_jobs(store, results.path(), experiments_in_jobs(store), queue,
                           {.now = [&] { return now; }, .wait = wait});
}

// A laboratory with one runner.
struct OneRunner {
  SlurmLaboratory lab;
  SlurmRunnerLife life{lab.results, lab.cluster};

  std::vector<RunRecord> submitted(const std::vector<RunRecord>& planned) {
    std::vector<RunRecord> runs = life.plan(planned);
    REQUIRE(life.sweep.submit(runs));
    return runs;
  }
  // Submits `count` runs that ask for the same resources.
  std::vector<RunRecord> submitted(int count) { return submitted(runs_of_one_shape(count)); }
  // Submits runs with a runner that ends before Slurm answers.
  std::vector<RunRecord> submitted_without_answer(int count) {
    std::vector<RunRecord> runs = life.plan(runs_of_one_shape(count));
    lab.cluster.loses_answers = life.is_asked_to_stop = true;
    REQUIRE_FALSE(life.sweep.submit(runs));
    return runs;
  }
};

}  // namespace fsdp
