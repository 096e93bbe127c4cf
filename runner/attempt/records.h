#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "contract/record/run_paths.h"
#include "runner/launch/launcher.h"
#include "runner/store/attempts.h"

// What a job of Slurm writes into the folder of an attempt, for the runner that follows the job
// from elsewhere. Both files appear complete, by being renamed.
namespace fsdp {

// launch.json: written before the ranks are started.
struct LaunchRecord {
  std::string job;  // "12_3", "12"
  std::string node_list;
  std::string host;  // that the ranks are started from
  int64_t started_unix_ms = 0;
  Prediction prediction{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("job", self.job);
    visit("node_list", self.node_list);
    visit("host", self.host);
    visit("started_unix_ms", self.started_unix_ms);
    Prediction::visit_fields(self.prediction, visit);
  }
};

// end.json: written when every rank has ended. A job that is killed writes none. A runner on this
// host leaves one where it could not record the end.
struct EndRecord {
  int64_t ended_unix_ms = 0;
  LaunchResult launch{};
  // Whether the run's inputs were looked at when it ended, and what changed_input() said.
  bool inputs_compared = false;
  std::optional<std::string> changed_input{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("ended_unix_ms", self.ended_unix_ms);
    visit("outcome", self.launch.outcome);
    visit("reason", self.launch.reason);
    visit("first_rank", self.launch.first_rank);
    visit("inputs_compared", self.inputs_compared);
    visit("changed_input", self.changed_input);
  }
};

// The attempt's folder is there. Throw std::system_error when the file cannot be written.
void write_launch_record(const RunPaths& paths, int attempt, const LaunchRecord& start);
void write_end_record(const RunPaths& paths, int attempt, const EndRecord& end);

// Absent: not there (yet), or no such record; `warn` is told of the latter, in one line.
using WarnOfFile = std::function<void(const std::string&)>;
std::optional<LaunchRecord> read_launch_record(const RunPaths& paths, int attempt,
                                               const WarnOfFile& warn);
std::optional<EndRecord> read_end_record(const RunPaths& paths, int attempt,
                                         const WarnOfFile& warn);

}  // namespace fsdp
