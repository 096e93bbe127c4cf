#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/store/run_status.h"

// The store's records of attempts, without the reports of ranks, and of the Slurm jobs that make
// attempts.
namespace fsdp {

// The origin of an attempt's result: code, programs, machine. Unknown members are empty or 0. Ranks
// report the versions of libraries, the GPU, clocks and limits (RunStarted).
struct Provenance {
  std::string git_commit;
  std::optional<bool> git_dirty;      // tracked files have changed since the commit
  std::optional<bool> git_untracked;  // git did not track the experiment's file
  std::string trainer_digest;         // of the binary
  std::string runner_version;
  std::string cpu_name;  // of the host that started the attempt
  int64_t cpu_cores = 0;
  int64_t memory_total_bytes = 0;
  std::string environment = "{}";      // JSON object: the variables that matter
  std::string experiment_text_digest;  // of the experiment's file at that time

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

// The figures predicted for an attempt before it began; nullopt: no prediction.
struct Prediction {
  std::optional<int64_t> memory_allocated_bytes_predicted;
  std::optional<double> step_time_ms_predicted;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("memory_allocated_bytes_predicted", self.memory_allocated_bytes_predicted);
    visit("step_time_ms_predicted", self.step_time_ms_predicted);
  }
};

// The facts that are known when an attempt begins. They identify the attempt after its runner died.
struct AttemptStart {
  int64_t runner_process_id = 0;
  int64_t started_unix_ms = 0;
  std::string host;
  Provenance provenance{};
  std::string device_kind{};  // name and memory of the ranks' devices, or "cpu"
  std::string slurm_job{};    // the attempt's job: "12_3", "12"; empty: none
  std::string node_list{};    // of that job: "n[1-2]"
  // The run's share of that job's GPUs and nodes. Runs side by side have equal shares.
  std::optional<double> gpus_held{};  // nullopt: one for each rank
  std::optional<double> nodes_held{};
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
    visit("gpus_held", self.gpus_held);
    visit("nodes_held", self.nodes_held);
    Prediction::visit_fields(self.prediction, visit);
  }
  // In launch.json. Earlier versions wrote fewer fields.
  static bool is_required(std::string_view field) {
    return field == "host" || field == "started_unix_ms";
  }
};

// The judgement about an attempt, or about a run without one. verdict.json has the visited fields.
struct Verdict {
  RunStatus status = RunStatus::kUnknown;
  std::string reason{};  // one line; empty when finished
  int reason_rank = -1;  // the rank with the log that tells more; -1: none
  int64_t ended_unix_ms = 0;
  // True if the ranks' own reports explain the end. False if there are only communication errors,
  // which follow from another rank's death, or no reports. A launcher that saw the processes end
  // knows more.
  bool is_explained = true;

  // True if the ranks ran to a result. A result outranks the exits of their processes.
  bool is_result() const { return fsdp::is_result(status); }

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("status", self.status);
    visit("reason", self.reason);
    visit("reason_rank", self.reason_rank);
    visit("ended_unix_ms", self.ended_unix_ms);
  }
};

struct AttemptRecord : AttemptStart {
  int attempt = 0;
  RunStatus status = RunStatus::kUnknown;
  std::string reason;                  // one line; may be empty
  std::optional<int64_t> reason_rank;  // the rank with the log that tells more
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

// Returns the status that follows from a run's attempts. The newest attempt decides if it runs.
// Otherwise the newest that was not cut short decides, or the newest if there is none.
std::pair<RunStatus, std::string> standing(const std::vector<AttemptRecord>& attempts);

// One run of a job.
struct JobTask {
  int64_t task = 0;  // its index in the array, or among the allocation's runs
  int64_t run = 0;
  bool over = false;    // it will run nothing more, and all its work is recorded
  std::string state{};  // as Slurm names it; empty: not asked yet
  std::string reason{};
  std::string node_list{};
  std::optional<int64_t> ends_unix_ms{};  // when its time limit ends it; nullopt unless it runs
  std::string device_kind{};              // of its attempts, as in AttemptStart

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

// One call of sbatch. With mode "per_run" it is an array, even of one task. With "allocation" it is
// one job for all of its runs.
struct JobRecord {
  int64_t id = 0;  // in the store
  std::string experiment{};
  std::string token{};      // random; a part of the name of `folder`
  std::string slurm_job{};  // as sbatch returned it; empty: it has not answered yet
  std::string cluster{};    // Slurm's name of the job's cluster; empty: unknown
  std::string mode{};
  std::filesystem::path folder{};  // of its script and output, relative to the results
  int64_t submitted_unix_ms = 0;
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
  }
};

// Returns Slurm's name for the task: "12_3", "12"; empty while sbatch has not answered.
inline std::string slurm_name(const JobRecord& job, int64_t task) {
  if (job.slurm_job.empty() || job.mode != "per_run") return job.slurm_job;
  return job.slurm_job + '_' + std::to_string(task);
}

}  // namespace fsdp
