#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/files/file_digest.h"
#include "runner/cluster/job_follower.h"
#include "runner/cluster/job_plan.h"
#include "runner/cluster/job_submission.h"
#include "runner/experiment/doubling_series.h"
#include "runner/progress/progress.h"
#include "runner/run/attempt_files.h"
#include "runner/run/earlier_attempts.h"
#include "runner/run/planned_runs.h"
#include "runner/run/run_planner.h"
#include "runner/store/list_name.h"
#include "tests/end_to_end/program.h"

namespace fsdp {

// Runs every task on this host, as srun does on nodes. NODE_GONE names a node that fails. SIGUSR1
// reaches the whole process group, so the tasks get it, too.
inline constexpr const char* kSrun = R"(#!/bin/bash
while [[ $1 == --* ]]; do
  case $1 in --ntasks=*) tasks=${1#*=} ;; --output=*) output=${1#*=} ;; esac
  shift
done
trap '' USR1
for ((rank = 0; rank < tasks; ++rank)); do
  SLURM_PROCID=$rank "$@" >"${output//%t/$rank}" 2>&1 &
  ranks+=($!)
done
largest=0
for rank in "${ranks[@]}"; do
  wait "$rank"
  status=$?
  ((status <= largest)) || largest=$status
done
[[ -z ${NODE_GONE-} ]] || echo "srun: error: Node failure on $NODE_GONE" >&2
exit "$largest"
)";

struct Chosen {
  bool rerun = false;
  std::string token = "token";
  std::string job = "12";
  std::vector<std::string> only{};
  std::vector<std::string> set{};
};

// A user's runner that has planned an experiment and submitted it as one job, or as one array.
class Submission {
 public:
  explicit Submission(const Workplace& workplace, Chosen choice = {})
      : workplace_(workplace),
        store_(workplace.results()),
        experiment_(Experiment::load(workplace / "experiment.yaml")),
        digest_(remembered(file_digest)),
        planner_(store_, digest_,
                 {.device_kind = slurm_device_kind, .rerun = choice.rerun, .say = [](auto&) {}}),
        folder_(workplace.results() / "slurm" / ("trial-" + choice.token)) {
    const Expansion expansion = experiment_.expand(
        {.set = choice.set, .only = choice.only, .on_cluster = true}, Resources());
    const std::string list = list_name(experiment_.name(), expansion.list_overrides);
    runs_ = planner_.plan({.name = list,
                           .title = "",
                           .file = experiment_.file(),
                           .text = "",
                           .text_digest = "",
                           .profile = ""},
                          expansion, planned_runs(list, expansion.runs, digest_),
                          left_out_runs(list, expansion.left_out, digest_));
    plan_ = {.mode = runs_.front().spec.slurm.mode,
             .file = experiment_.file(),
             .working_directory = workplace / ".",
             .set = choice.set,
             .only = choice.only,
             .results = workplace.results(),
             .trainer = STUB_TRAINER_PROGRAM};
    write(runs_);
    job_ = {.experiment = list,
            .token = choice.token,
            .slurm_job = choice.job,
            .mode = std::string(name_of(plan_.mode)),
            .folder = "slurm/trial-" + choice.token};
    for (const RunRecord& run : runs_) {
      job_.tasks.push_back({.task = std::ssize(job_.tasks), .run = run.id});
    }
    job_.id = store_.record_job(job_);
    program("srun", kSrun);
    job_becomes("RUNNING");
    program("scontrol", "#!/bin/bash\necho \"$@\" >>\"${0%/*}/../scontrol\"\n");
  }

  // Sets the state that squeue reports.
  void job_becomes(const std::string& state) const {
    const std::string name = slurm_name(job_, 1);
    program("squeue",
            "#!/bin/bash\n"
            "if [[ $* == *--steps* ]]; then echo job.batch batch; else echo '" +
                name + '|' + state + "|9:00|n1|None'; fi\n");
  }

  std::filesystem::path folder() const { return folder_; }
  // Writes the files of a job for these runs.
  void write(const std::vector<RunRecord>& runs) {
    std::vector<JobRun> job_runs;
    for (const RunRecord& run : runs) {
      const RunPaths paths(workplace_.results() / run.folder);
      write_spec(paths, run.spec);
      take_run(paths, folder_.filename());
      job_runs.push_back(
          {.run = run,
           .inputs = FileDigests(store_, run.spec).all(),
           .search = plan_.mode == SlurmMode::kAllocation ? planner_.search_of(run) : std::nullopt,
           .begins_anew = run.begins_anew});
    }
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    write_job_plan(folder_, plan_, experiment_.text(), job_runs);
  }
  const std::vector<RunRecord>& runs() const { return runs_; }

  // The command of the batch script. variables() are of the job, or of task 1 of the array.
  std::vector<std::string> command() const {
    return {FSDP_RUN_PROGRAM, "attempt", folder_.string()};
  }
  Variables variables(Variables variables = {}) const {
    variables.merge(Variables{{"PATH", (workplace_ / "bin").string() + ":/usr/bin:/bin"},
                              {"TMPDIR", workplace_ / "."},
                              {"SLURM_JOB_ID", job_.slurm_job},
                              {"SLURM_ARRAY_JOB_ID", job_.slurm_job},
                              {"SLURM_ARRAY_TASK_ID", "1"},
                              {"SLURMD_NODENAME", "n1"},
                              {"SLURM_JOB_NODELIST", "n[1-2]"}});
    return variables;
  }
  Ended run(const Variables& more = {}) const {
    return Program(workplace_ / ".", command(), variables(more)).wait();
  }

  // Reads the files of the job, or of the array's task 1, as a runner does after its end. Returns
  // the names of the submitted runs without an end of their own.
  std::vector<std::string> follow() {
    std::chrono::steady_clock::time_point now{};
    QuietProgress progress;
    JobFollower follower({store_, progress, workplace_.results()},
                         [&] { return now += std::chrono::seconds(10); });
    follower.follow(job_, runs_);
    std::vector<TaskState> states;
    for (const JobTask& task : job_.tasks) {
      const std::string name = slurm_name(job_, task.task);
      const bool has_ended = name == slurm_name(job_, 1);
      states.push_back({.job = name,
                        .phase = has_ended ? TaskPhase::kEnded : TaskPhase::kQueued,
                        .state = has_ended ? "COMPLETED" : "PENDING",
                        .node_list = has_ended ? "n1" : ""});
    }
    for (int pass = 0; pass < 2; ++pass) follower.pass(states);
    std::vector<std::string> names;
    for (const RunRecord& run : runs_) {
      const RunStatus status = store_.run(run.id)->status;
      if (is_cut_short(status) || is_under_way(status)) names.push_back(run.point);
    }
    return names;
  }

  // `run` is a position among the submitted runs.
  RunPaths paths(size_t run) const { return RunPaths(workplace_.results() / runs_.at(run).folder); }
  AttemptStart start(size_t run, int attempt) const {
    const auto start = read_start(paths(run), attempt, [](auto& line) { FAIL(line); });
    REQUIRE(start);
    return *start;
  }
  AttemptEnd end(size_t run, int attempt) const {
    return read_end(paths(run), attempt, [](auto& line) { FAIL(line); });
  }
  std::optional<Verdict> verdict(size_t run, int attempt) const {
    return read_verdict(paths(run), attempt, [](auto& line) { FAIL(line); });
  }

 private:
  void program(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(workplace_ / "bin");
    std::ofstream(workplace_ / ("bin/" + name)) << text;
    std::filesystem::permissions(workplace_ / ("bin/" + name), std::filesystem::perms::owner_all);
  }

  const Workplace& workplace_;
  Store store_;
  Experiment experiment_;
  FileDigest digest_;
  RunPlanner planner_;
  std::filesystem::path folder_;
  JobPlan plan_;
  std::vector<RunRecord> runs_;
  JobRecord job_;
};

}  // namespace fsdp
