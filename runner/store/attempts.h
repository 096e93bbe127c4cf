#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runner/store/run_status.h"

// What is recorded of an attempt beside what its ranks report.
namespace fsdp {

// Where an attempt's result comes from: code, programs, machine. What is not known is empty or 0.
// Versions of libraries, GPU, clocks and limits are what its ranks report (RunStarted).
struct Provenance {
  std::string git_commit;
  std::optional<bool> git_dirty;  // whether files that git tracks were changed since
  std::string trainer_digest;     // of the binary
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
    visit("trainer_digest", self.trainer_digest);
    visit("runner_version", self.runner_version);
    visit("cpu_name", self.cpu_name);
    visit("cpu_cores", self.cpu_cores);
    visit("memory_total_bytes", self.memory_total_bytes);
    visit("environment", self.environment);
    visit("experiment_text_digest", self.experiment_text_digest);
  }
};

// How an attempt is known again after the runner died, and where it comes from.
struct AttemptStart {
  int64_t runner_process_id = 0;
  int64_t started_unix_ms = 0;
  std::string host;
  Provenance provenance{};
  std::string device_kind{};  // name and memory of what the ranks use; "cpu"
  std::string slurm_job{};    // that it runs in: "12_3", "12"; empty: none
  std::string node_list{};    // of that job: "n[1-2]"

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("runner_process_id", self.runner_process_id);
    visit("started_unix_ms", self.started_unix_ms);
    visit("host", self.host);
    Provenance::visit_fields(self.provenance, visit);
    visit("device_kind", self.device_kind);
    visit("slurm_job", self.slurm_job);
    visit("node_list", self.node_list);
  }
};

struct AttemptRecord {
  int attempt = 0;
  RunStatus status = RunStatus::kUnknown;
  std::string reason;                  // one line, empty when there is nothing to say
  std::optional<int64_t> reason_rank;  // the rank whose log says more
  int64_t started_unix_ms = 0;
  std::optional<int64_t> ended_unix_ms;
  std::string host;
  std::string slurm_job;  // empty: none
  std::string node_list;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("attempt", self.attempt);
    visit("status", self.status);
    visit("reason", self.reason);
    visit("reason_rank", self.reason_rank);
    visit("started_unix_ms", self.started_unix_ms);
    visit("ended_unix_ms", self.ended_unix_ms);
    visit("host", self.host);
    visit("slurm_job", self.slurm_job);
    visit("node_list", self.node_list);
  }
};

}  // namespace fsdp
