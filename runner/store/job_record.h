#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/store/attempts.h"

// What is recorded of jobs of Slurm.
namespace fsdp {

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
