#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/store/run_status.h"

// What is recorded of attempts beside what their ranks report, and of the jobs of Slurm that make
// them.
namespace fsdp {

// Where an attempt's result comes from: code, programs, machine. What is not known is empty or 0.
// Versions of libraries, GPU, clocks and limits are what its ranks report (RunStarted).
struct Provenance {
  std::string git_commit;
  std::optional<bool> git_dirty;      // whether files that git tracks were changed since
  std::optional<bool> git_untracked;  // whether git did not track the experiment's file
  std::string trainer_digest;         // of the binary
  std::string runner_version;
  std::string cpu_name;  // of the host that the attempt was started on
  int64_t cpu_cores = 0;
  int64_t memory_total_bytes = 0;
  std::string environment = "{}";      // JSON object: the variables that matter
  std::string experiment_text_digest;  // of the experiment's file as it was

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("git_commit", self.git_commit);
    visit("git_dirty", self.git_dirty);
    visit("git_untracked", self.git_untracked);
    visit("trainer_digest", self.trainer_digest);
    visit("runner_version", self.runner_version);
    visit("cpu_name", self.cpu_name);
    visit("cpu_cores", self.cpu_cores);
    visit("memory_total_bytes", self.memory_total_bytes);
    visit("environment", self.environment);
    visit("experiment_text_digest", self.experiment_text_digest);
  }
};

// What was planned of an attempt before it began; absent: nothing.
struct Prediction {
  std::optional<int64_t> memory_allocated_bytes_predicted;
  std::optional<double> step_time_ms_predicted;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("memory_allocated_bytes_predicted", self.memory_allocated_bytes_predicted);
    visit("step_time_ms_predicted", self.step_time_ms_predicted);
  }
};

// How an attempt is known again after the runner died, and where it comes from.
struct AttemptStart {
  int64_t runner_process_id = 0;
  int64_t started_unix_ms = 0;
  std::string host;
  Provenance provenance{};
  std::string device_kind{};  // name and memory of what the ranks use, or "cpu"
  std::string slurm_job{};    // that it runs in: "12_3", "12"; empty: none
  std::string node_list{};    // of that job: "n[1-2]"
  Prediction prediction{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("runner_process_id", self.runner_process_id);
    visit("started_unix_ms", self.started_unix_ms);
    visit("host", self.host);
    Provenance::visit_fields(self.provenance, visit);
    visit("device_kind", self.device_kind);
    visit("slurm_job", self.slurm_job);
    visit("node_list", self.node_list);
    Prediction::visit_fields(self.prediction, visit);
  }
};

struct AttemptRecord : AttemptStart {
  int attempt = 0;
  RunStatus status = RunStatus::kUnknown;
  std::string reason;                  // one line, empty when there is nothing to say
  std::optional<int64_t> reason_rank;  // the rank whose log says more
  std::optional<int64_t> ended_unix_ms;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("attempt", self.attempt);
    visit("status", self.status);
    visit("reason", self.reason);
    visit("reason_rank", self.reason_rank);
    visit("ended_unix_ms", self.ended_unix_ms);
    AttemptStart::visit_fields(self, visit);
  }
};

// One run of a job.
struct JobTask {
  int64_t task = 0;  // its index in the array; of an allocation: which of its runs
  int64_t run = 0;
  bool over = false;    // nothing of it will run any more, and all it did is recorded
  std::string state{};  // Slurm's word; empty: not asked yet
  std::string reason{};
  std::string node_list{};
  std::optional<int64_t> ends_unix_ms{};  // when its time limit passes, while it runs
  std::string device_kind{};              // of the attempts it makes, as AttemptStart has it

  bool operator==(const JobTask&) const = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("task", self.task);
    visit("run", self.run);
    visit("over", self.over);
    visit("state", self.state);
    visit("reason", self.reason);
    visit("node_list", self.node_list);
    visit("ends_unix_ms", self.ends_unix_ms);
    visit("device_kind", self.device_kind);
  }
};

// One call of sbatch. With mode "per_run" it is an array, also when it has one task only; with
// "allocation" one job for all of its runs.
struct JobRecord {
  int64_t id = 0;  // the store's
  std::string experiment{};
  std::string token{};      // random; in the job's comment, by which Slurm finds it again
  std::string slurm_job{};  // as sbatch returned it; empty: it has not answered yet
  std::string cluster{};    // Slurm's name of it, where the id means this job; empty: not known
  std::string mode{};
  std::filesystem::path folder{};  // of its script and output, relative to the results
  int64_t submitted_unix_ms = 0;
  Provenance provenance{};  // of the attempts it makes, as known when it was submitted
  std::vector<JobTask> tasks{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("id", self.id);
    visit("experiment", self.experiment);
    visit("token", self.token);
    visit("slurm_job", self.slurm_job);
    visit("cluster", self.cluster);
    visit("mode", self.mode);
    visit("folder", self.folder);
    visit("submitted_unix_ms", self.submitted_unix_ms);
    Provenance::visit_fields(self.provenance, visit);
  }
};

// As Slurm names it: "12_3", "12"; empty while sbatch has not answered.
std::string slurm_name(const JobRecord& job, int64_t task);

}  // namespace fsdp
